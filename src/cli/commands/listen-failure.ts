import { CliError } from "../failure.ts";

type Address = { host: string; port: number };

/** The sentence for a failure to listen; null when the error is about something else. */
export const listenFailure = (error: unknown, { host, port }: Address): CliError | null => {
  if (!(error instanceof Error) || !("code" in error) || !("syscall" in error)) return null;
  if (error.syscall !== "listen" && error.syscall !== "getaddrinfo" && error.syscall !== "bind") return null;
  const code = String(error.code);
  const message =
    sentences[code]?.({ host, port }) ??
    `The service cannot listen on ${host}, port ${port}: ${error.message}`;
  return new CliError(message, { code: "listen_failed", cause: error });
};

const sentences: Record<string, (address: Address) => string> = {
  EADDRINUSE: ({ host, port }) =>
    `Port ${port} on ${host} is taken: stop the program that uses it, or choose another with --port or SERVICE_PORT`,
  EACCES: ({ port }) =>
    `Port ${port} is reserved for privileged users: choose one above 1023 with --port or SERVICE_PORT`,
  EADDRNOTAVAIL: ({ host }) =>
    `${host} is not an address of this machine: choose one with --host or SERVICE_HOST`,
  ENOTFOUND: ({ host }) => `The host name ${host} is unknown: choose another with --host or SERVICE_HOST`,
};
