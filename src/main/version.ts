import packageJson from "../../package.json" with { type: "json" };

/** Version of the program, from the package it was built from. */
export const version: string = packageJson.version;

/** The service's own name, as `/health` tells it. */
export const serviceName = "svc";

/** What MCP clients are told about who answers. */
export const mcpIdentity = { name: serviceName, title: "Coding-agent jobs", version };
