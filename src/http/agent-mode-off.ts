import { ServiceError } from "../contract/errors.ts";

/** Told of what is only there in agent mode. */
export const agentModeOff = (what: string): ServiceError =>
  new ServiceError(
    "not_found",
    `${what} is part of agent mode, which is off; start the service with AGENT_MODE=true`,
  );
