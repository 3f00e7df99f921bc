import packageJson from "../../package.json" with { type: "json" };

/** Version of the program, from its package. */
export const version: string = packageJson.version;

/** The service's own name, as `/health` has it. */
export const serviceName = "svc";

/** What MCP clients see as the server's identity. */
export const mcpIdentity = { name: serviceName, title: "Coding-agent jobs", version };
