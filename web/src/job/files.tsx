import { useMutation } from "@tanstack/react-query";
import type { Job } from "../../../src/contract/job.ts";
import { bytes } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { client } from "../shell/service.ts";

/** What the agent left for people. Its files are written to disk, never shown: an agent made them. */
export const Files = ({ job: { id, files } }: { job: Job }) => {
  const get = useMutation({ mutationFn: (path: string) => download(id, path) });
  return files.length === 0 ? null : (
    <>
      <h2>Files</h2>
      <ul className="plain stack">
        {files.map((file) => (
          <li key={file.path}>
            <button
              type="button"
              title={`Download ${oneLine(file.path)}`}
              disabled={get.isPending}
              onClick={() => get.mutate(file.path)}
            >
              {oneLine(file.path)}
            </button>{" "}
            <span className="number faint">{bytes(file.bytes)}</span>
          </li>
        ))}
      </ul>
    </>
  );
};

/** An address cannot have the key: the bytes are fetched, then written. */
const download = async (id: string, path: string): Promise<void> => {
  const content = await (await client().file(id, path)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = path.slice(path.lastIndexOf("/") + 1);
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};
