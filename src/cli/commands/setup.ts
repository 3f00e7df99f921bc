import { connect } from "../connect.ts";
import { usageError, type ExitCode } from "../failure.ts";
import { placeOf, submit } from "./run.ts";

type SetupOptions = { repo?: string; baseRef?: string; profile: string; json?: boolean };

/** `svc setup`: a job that ends after its setup, followed until then. */
export const setup = async (options: SetupOptions): Promise<ExitCode> => {
  const connection = connect();
  const place = await placeOf({ ...options, json: true }, connection);
  if (place.repo_url === "") throw usageError("There is no repository to set up: give --repo");
  const input = { task: "Try the setup", ...place, profile: options.profile, options: { setup_only: true } };
  return await submit(connection.client, input, { wait: true, ...(options.json && { json: true }) });
};
