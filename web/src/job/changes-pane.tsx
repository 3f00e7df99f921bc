import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { isFinal, type Job } from "../../../src/contract/job.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { coloured, useColours } from "../parts/code.tsx";
import { useIsTouched } from "../parts/media.ts";
import { Answer, Empty } from "../parts/states.tsx";
import { RowList, useRows, VirtualList } from "../parts/virtual-list.tsx";
import { client, queries } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import type { Follower } from "./follow.ts";
import { readPatch, shownText, type Patch, type PatchFile, type PatchRow } from "./patch.ts";

const rowHeight = 20;

/** Milliseconds between two readings of the change while the agent edits. */
const readAgainMs = 3000;

type Props = { job: Job; follower: Follower };

/** What the job has changed so far; read again after the agent's edits. */
export const ChangesPane = ({ job, follower }: Props) => {
  const { id } = job;
  const hasEnded = isFinal(job.status);
  // Work is saved after the job has ended.
  const queryKey = ["diff", id, hasEnded, job.salvage_ref];
  const readChange = async (signal: AbortSignal) => {
    const answer = await client().get_diff({ job_id: id, max_bytes: 10_000_000 }, { signal });
    const notices = [
      answer.source === "salvage" ? "This is the work that was saved when the job ended." : "",
      answer.truncated ? `Not all of it: svc checkout ${id.slice(0, 8)} brings the rest.` : "",
      oneLine(answer.note ?? ""),
    ];
    return { patch: readPatch(answer.diff, answer.files), notice: notices.filter(Boolean).join(" ") };
  };
  type Change = Awaited<ReturnType<typeof readChange>> & { edits: number };
  const change = useQuery({
    queryKey,
    queryFn: async ({ signal }): Promise<Change> => {
      const { edits } = follower.conversation.facts;
      const last = queries.getQueryData<Change>(queryKey);
      return last?.edits === edits ? last : { ...(await readChange(signal)), edits };
    },
    refetchInterval: hasEnded ? false : readAgainMs,
    placeholderData: (before) => before,
    // Patches are large, and reading them is cheap.
    gcTime: 0,
    structuralSharing: false,
  });
  return (
    <Answer query={change}>
      {({ patch, notice }) =>
        patch.files.length === 0 ? (
          <Empty title={hasEnded ? "This job has changed nothing" : "Nothing is changed yet"}>{notice}</Empty>
        ) : (
          <PatchView patch={patch} notice={notice} />
        )
      }
    </Answer>
  );
};

const PatchView = ({ patch: { files, rows, isCut }, notice }: { patch: Patch; notice: string }) => {
  const lines = useRows({ count: rows.length, estimateSize: () => rowHeight });
  const shown = rows[Math.floor((lines.list.scrollOffset ?? 0) / rowHeight)]?.file;
  const go = (file: PatchFile | undefined): void => {
    if (file !== undefined) lines.list.scrollToIndex(file.row, { align: "start" });
  };
  const beside = (step: number): PatchFile | undefined =>
    files[(shown === undefined ? 0 : files.indexOf(shown)) + step];
  useShortcut("]", "Next file", () => go(beside(1)));
  useShortcut("[", "File before", () => go(beside(-1)));
  return (
    <div className="changes">
      <FileTree files={files} shown={shown} go={go} />
      <RowList
        rows={lines}
        className="patch"
        tabIndex={0}
        role="region"
        aria-label="Changed lines"
        row={(index) => {
          const row = rows[index];
          return row && <Line row={row} />;
        }}
      />
      {(notice !== "" || isCut) && (
        <p className="notice">
          {notice} {isCut && `Only the first ${rows.length.toLocaleString("en")} lines are shown.`}
        </p>
      )}
    </div>
  );
};

const Line = ({ row: { kind, text, before, after, file } }: { row: PatchRow }) => (
  <div className={`line ${kind}`}>
    {kind === "file" && (
      <>
        <strong dir="auto">{oneLine(text)}</strong> <Counts file={file} />{" "}
        <span className="note">{noteOf(file)}</span>
      </>
    )}
    {(kind === "hunk" || kind === "note") && <span className="note">{shownText(text)}</span>}
    {signs[kind] !== undefined && (
      <>
        <span className="number" aria-hidden="true">
          {before}
        </span>
        <span className="number" aria-hidden="true">
          {after}
        </span>
        <span className="side">{signs[kind]}</span>
        <code>
          <Coloured text={shownText(text)} path={file.path} />
        </code>
      </>
    )}
  </div>
);

const signs: { [Kind in PatchRow["kind"]]?: string } = { added: "+", deleted: "−", same: " " };

/** A longer line has no colours: minified code would hold the page up. */
const longestColoured = 400;

/** Each line by itself: comments and texts over several lines are coloured as code. */
const Coloured = ({ text, path }: { text: string; path: string }) => {
  const language = path.slice(path.lastIndexOf(".") + 1);
  const colours = useColours(language, text.length <= longestColoured);
  return colours === null ? text : coloured(colours, language, text);
};

const Counts = ({ file: { insertions, deletions } }: { file: PatchFile }) => (
  <span className="number">
    {insertions > 0 && <span className="added">+{insertions} </span>}
    {deletions > 0 && <span className="removed">−{deletions}</span>}
  </span>
);

/** What happened to a file besides lines. */
const noteOf = ({ status, old_path, binary }: PatchFile): string =>
  [
    status === "modified" ? "" : status.replace("_", " "),
    old_path === null ? "" : `from ${oneLine(old_path)}`,
    binary ? "binary" : "",
  ]
    .filter(Boolean)
    .join(", ");

type TreeProps = { files: PatchFile[]; shown: PatchFile | undefined; go: (file: PatchFile) => void };

/** The files by their directories. */
const FileTree = ({ files, shown, go }: TreeProps) => {
  const lines = useMemo(() => treeOf(files), [files]);
  const isTouched = useIsTouched();
  return (
    <nav className="tree" aria-label="Changed files">
      <VirtualList
        count={lines.length}
        estimate={isTouched ? 44 : 26}
        rowKey={(index) => index}
        active={shown === undefined ? -1 : lines.indexOf(shown)}
        row={(index) => <TreeLine line={lines[index]} shown={shown} go={go} />}
      />
    </nav>
  );
};

type LineProps = Omit<TreeProps, "files"> & { line: string | PatchFile | undefined };

const TreeLine = ({ line, shown, go }: LineProps) => {
  if (line === undefined) return null;
  if (typeof line === "string") return <div className="note mono">{oneLine(line)}</div>;
  return (
    <button
      type="button"
      className="quiet"
      aria-current={line === shown || undefined}
      onClick={() => go(line)}
    >
      <span dir="auto" className="cut">
        {oneLine(nameOf(line.path))}
      </span>{" "}
      <Counts file={line} />
    </button>
  );
};

/** Each directory, followed by its files. */
const treeOf = (files: PatchFile[]): (string | PatchFile)[] =>
  [...Map.groupBy(files, ({ path }) => path.slice(0, -nameOf(path).length))]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([directory, inside]) => (directory === "" ? inside : [directory, ...inside]));

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
