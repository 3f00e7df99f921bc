import { buildImage, findContainerTool, requireTool } from "../container-tool.ts";
import { exitCode, usageError, type ExitCode } from "../failure.ts";
import { print } from "../print.ts";

/** `--main` and `--all` stand for the one image that there is. */
export type PushOptions = { tag: string; buildOnly?: boolean; pushOnly?: boolean; cache: boolean };

/** `svc push`: prints the image's reference when it is done. */
export const push = async ({ tag, buildOnly, pushOnly, cache }: PushOptions): Promise<ExitCode> => {
  const { CONTAINER_REGISTRY: registry = "" } = process.env;
  if (registry.length > 200 || !registryForm.test(registry))
    throw usageError(
      `CONTAINER_REGISTRY ${registry === "" ? "is not set: it must" : "must"} be a host with a path in lower case, as in ghcr.io/acme, without https:// and without a slash at its end`,
    );
  const reference = `${registry}/svc:${tag}`;
  const tool = await findContainerTool();
  if (!pushOnly) await buildImage(tool, { reference, cache });
  if (!buildOnly) await requireTool(tool, ["push", reference], { stdout: "notes" });
  print(reference);
  return exitCode.ok;
};

const registryForm = /^[a-z0-9]+([.-]+[a-z0-9]+)*(:\d{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/;
