import packageJson from "../../package.json" with { type: "json" };

/** Version of the program, from its package. */
export const version: string = packageJson.version;

/** The service's own name, as `/health` has it. */
export const serviceName = "svc";

export const service = { name: serviceName, version };
