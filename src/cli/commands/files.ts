import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { basename } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { JobFile } from "../../contract/job.ts";
import { bytes, list } from "../../view/columns.ts";
import type { Layout } from "../../view/paint.ts";
import { oneLine } from "../../view/sanitise.ts";
import { connect } from "../connect.ts";
import { CliError, exitCode, usageError } from "../failure.ts";
import { resolveJobId, rememberJob } from "../job-id.ts";
import { note, printAnswer } from "../print.ts";

type Options = { output?: string; force?: boolean; json?: boolean };

/** `svc files` */
export const files = async (word: string, path: string | undefined, { output, force, json }: Options) => {
  const { client } = connect();
  if (path === undefined && output !== undefined) throw usageError("-o needs the path of a file");
  const answer = await client.list_files({ job_id: await resolveJobId(client, word) });
  await rememberJob(answer.job_id);
  if (path === undefined) return printAnswer(answer, json, fileTable);
  const { body } = await client.file(answer.job_id, path);
  const content = Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);
  if (output === "-") await pipeline(content, process.stdout, { end: false });
  else await write(content, output ?? basename(path), force === true);
  return exitCode.ok;
};

const fileTable = ({ files: all }: { files: readonly JobFile[] }, layout: Layout): string =>
  list(
    all,
    [
      ["SIZE", (file) => bytes(file.bytes), { right: true }],
      ["PATH", ({ path }) => oneLine(path)],
    ],
    { empty: "The job has left no files in .svc/out", ...layout },
  );

const write = async (content: Readable, file: string, isForced: boolean): Promise<void> => {
  const target = createWriteStream(file, { flags: isForced ? "w" : "wx" });
  await pipeline(content, target).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST")
      throw usageError(`${file} exists: --force replaces it, -o FILE writes another`);
    if (target.bytesWritten > 0) await rm(file, { force: true });
    throw new CliError(`${file} could not be written: ${error.message}`);
  });
  note(`Written: ${oneLine(file)}`);
};
