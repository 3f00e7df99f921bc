import { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { JobId, type Job } from "../contract/job.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { KeptFiles } from "../store/kept-files.ts";
import { errorResponses } from "./openapi.ts";
import type { Route } from "./route.ts";

type Dependencies = {
  openFile: KeptFiles["open"];
  getJob: (input: { job_id: string }, context: RequestContext) => Promise<{ job: Job }>;
};

/** `GET /jobs/{job_id}/files/{path}`: only what the job's `files` has. No browser is to show it: an agent wrote it. */
export const filesRoute = ({ openFile, getJob }: Dependencies): Route => ({
  method: "get",
  path: "/jobs/{job_id}/files/{path}",
  openapi: {
    operationId: "get_file",
    summary: "Get a file of a job",
    description: "The bytes of one of the job's `files`, as a download.",
    requestParams: {
      path: z.object({ job_id: JobId, path: z.string().meta({ example: "report.pdf" }) }),
    },
    responses: {
      "200": {
        description: "The file",
        content: { "application/octet-stream": { schema: z.string().meta({ format: "binary" }) } },
      },
      ...errorResponses(["job_not_found", "ambiguous_id", "file_not_found"]),
    },
  },
  handle: async ({ request, principal, path: { job_id = "", path = "" } }) => {
    const { job } = await getJob({ job_id }, { signal: request.signal, principal });
    if (!job.files.some((file) => file.path === path))
      throw new ServiceError(
        "file_not_found",
        `The job ${job.id} has no file ${JSON.stringify(path.slice(0, 200))}; GET /jobs/${job.id}/files lists them`,
      );
    const found = await openFile(job.id, path);
    if (found === null)
      throw new ServiceError(
        "file_not_found",
        `The file is on the disk of the instance ${job.pod_name}: ask that instance`,
      );
    const name = encodeURIComponent(path.split("/").at(-1) ?? "").replaceAll(/['()*]/g, escaped);
    return {
      status: 200,
      headers: {
        "content-type": "application/octet-stream",
        "content-length": String(found.bytes),
        "content-disposition": `attachment; filename*=UTF-8''${name}`,
        "cache-control": "no-store",
      },
      // Nothing is opened before it is read: a HEAD request reads nothing.
      body: ReadableStream.from(lazily(found.read)),
    };
  },
});

async function* lazily(read: () => AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  yield* read();
}

const escaped = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
