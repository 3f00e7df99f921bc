import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { leftOutText } from "../../../src/contract/diff.ts";
import { isFinal, type Job } from "../../../src/contract/job.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { coloured, useColours } from "../parts/code.tsx";
import { Select } from "../parts/filters.tsx";
import { useIsTouched } from "../parts/media.ts";
import { Answer, Empty } from "../parts/states.tsx";
import { Lines, shortRepository } from "../parts/values.tsx";
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
  const { repo_url, repositories } = job;
  const [repository, choose] = useState("");
  const offered = repositories.map(({ repo_url: url }) => [url, shortRepository(url)] as const);
  return (
    <div className="column">
      {offered.length > 0 && (
        <label className="strip">
          Repository{" "}
          <Select
            value={repository}
            options={[["", shortRepository(repo_url)], ...offered]}
            change={choose}
          />
        </label>
      )}
      <RepositoryChange key={repository} job={job} repository={repository} follower={follower} />
    </div>
  );
};

/** The change in one of the job's repositories; empty: in its own. */
const RepositoryChange = ({ job, repository, follower }: Props & { repository: string }) => {
  const { id, status, salvage_ref, diff_stat, repositories } = job;
  const hasEnded = isFinal(status);
  // Work is saved after the job has ended.
  const queryKey = ["get_diff", id, repository, hasEnded, salvage_ref];
  type Change = { patch: Patch; notices: string; edits: number; isEmpty: boolean };
  const change = useQuery({
    queryKey,
    queryFn: async ({ signal }): Promise<Change> => {
      const { edits } = follower.conversation.facts;
      const last = queries.getQueryData<Change>(queryKey);
      if (last?.edits === edits) return last;
      const answer = await client().get_diff({ job_id: id, repository, max_bytes: 10_000_000 }, { signal });
      const patch = readPatch(answer.diff, answer.files);
      const hidden = answer.diff_stat.files - patch.files.length;
      const notices = [
        answer.source === "salvage" && "This is the work that was saved when the job ended.",
        answer.truncated &&
          `Not all of it: svc checkout ${id.slice(0, 8)} brings the rest. Left out: ${oneLine(leftOutText(answer.files))}.`,
        hidden > 0 && !patch.isCut && `${hidden.toLocaleString("en")} further files are not shown.`,
        patch.isCut && `Only the first ${patch.rows.length.toLocaleString("en")} lines are shown.`,
        oneLine(answer.note ?? ""),
      ];
      const isEmpty = answer.diff_stat.files === 0 && answer.files.length === 0;
      return { patch, notices: notices.filter(Boolean).join(" "), edits, isEmpty };
    },
    refetchInterval: hasEnded ? false : readAgainMs,
    placeholderData: (before) => before,
    // Patches are large, and reading them is cheap.
    gcTime: 0,
    structuralSharing: false,
  });
  const isElsewhere = repositories.length > 0 || (diff_stat?.files ?? 0) > 0;
  const ended = isElsewhere ? "No change is shown here" : "This job has changed nothing";
  const nothing = hasEnded ? ended : "Nothing is changed yet";
  return (
    <Answer query={change}>
      {({ patch, notices, isEmpty }) =>
        isEmpty ? (
          <Empty title={nothing}>{notices}</Empty>
        ) : (
          <div className="column">
            <PatchView patch={patch} />
            {notices !== "" && <p className="strip here">{notices}</p>}
          </div>
        )
      }
    </Answer>
  );
};

const PatchView = ({ patch: { files, rows } }: { patch: Patch }) => {
  const lines = useRows({ count: rows.length, estimateSize: () => rowHeight });
  const shown = rows[Math.floor((lines.list.scrollOffset ?? 0) / rowHeight)]?.file;
  const go = (file: PatchFile | undefined): void => {
    if (file !== undefined) lines.list.scrollToIndex(file.row, { align: "start" });
  };
  const at = shown === undefined ? 0 : files.indexOf(shown);
  useShortcut("]", "Next file", () => go(files[at + 1]));
  useShortcut("[", "File before", () => go(files[at - 1]));
  return (
    <div className="changes grow">
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
    </div>
  );
};

const Line = ({ row: { kind, text, before, after, file } }: { row: PatchRow }) => {
  const sign = signs[kind];
  if (kind === "file")
    return (
      <div className="line file">
        <strong dir="auto">{oneLine(text)}</strong> <Lines {...file} />{" "}
        <span className="faint">{noteOf(file)}</span>
      </div>
    );
  if (sign === undefined) return <div className="line note faint">{shownText(text)}</div>;
  return (
    <div className={`line ${kind}`}>
      <span className="side" aria-hidden="true">
        {before}
      </span>
      <span className="side" aria-hidden="true">
        {after}
      </span>
      <span className="sign faint">{sign}</span>
      <code>
        <Coloured text={shownText(text)} path={file.path} />
      </code>
    </div>
  );
};

const signs: { [Kind in PatchRow["kind"]]?: string } = { added: "+", deleted: "−", same: " " };

/** A longer line has no colours: minified code would hold the page up. */
const longestColoured = 400;

/** Each line by itself: comments and texts over several lines are coloured as code. */
const Coloured = ({ text, path }: { text: string; path: string }) => {
  const language = path.slice(path.lastIndexOf(".") + 1);
  const colours = useColours(language, text.length <= longestColoured);
  return colours === null ? text : coloured(colours, language, text);
};

/** What happened to a file besides lines. */
const noteOf = ({ status, old_path, binary }: PatchFile): string =>
  [
    status !== "modified" && status.replace("_", " "),
    old_path !== null && `from ${oneLine(old_path)}`,
    binary && "binary",
  ]
    .filter(Boolean)
    .join(", ");

type TreeProps = { files: PatchFile[]; shown: PatchFile | undefined; go: (file: PatchFile) => void };

/** The files by their directories. */
const FileTree = ({ files, shown, go }: TreeProps) => {
  const lines = useMemo(() => treeOf(files), [files]);
  return (
    <nav className="tree column" aria-label="Changed files">
      <VirtualList
        items={lines}
        keyOf={(line) => (typeof line === "string" ? line : line.path)}
        estimate={useIsTouched() ? 44 : 26}
        active={shown === undefined ? -1 : lines.indexOf(shown)}
        row={(line) =>
          typeof line === "string" ? (
            <div className="item row faint mono">{oneLine(line)}</div>
          ) : (
            <button
              type="button"
              className="item row between quiet"
              aria-current={line === shown || undefined}
              onClick={() => go(line)}
            >
              <span dir="auto" className="cut">
                {oneLine(nameOf(line.path))}
              </span>
              <Lines {...line} />
            </button>
          )
        }
      />
    </nav>
  );
};

/** Each directory, followed by its files. */
const treeOf = (files: PatchFile[]): (string | PatchFile)[] =>
  [...Map.groupBy(files, ({ path }) => path.slice(0, -nameOf(path).length))]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([directory, inside]) => (directory === "" ? inside : [directory, ...inside]));

const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
