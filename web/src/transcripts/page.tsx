import { useCallback, useMemo } from "react";
import { counted } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { Choice, Search, Since } from "../parts/filters.tsx";
import { Empty, FurtherFailed } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { BridgeAnswer } from "./bridge.tsx";
import { roles, useAsked, useFound, type Asked, type Found } from "./found.ts";
import { FoundRow } from "./row.tsx";
import "./transcripts.css";

export default function TranscriptsPage() {
  const [asked, change] = useAsked();
  const query = useFound(asked);
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage, isFetchNextPageError } = query;
  const found = useMemo(() => data?.pages.flatMap((page) => page.found) ?? [], [data]);
  const more = useCallback(() => {
    if (hasNextPage && !isFetching && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);
  const rowKey = useCallback((index: number) => idOf(found[index]) ?? index, [found]);
  const total = data?.pages[0]?.total;
  return (
    <div className="column">
      <Title hidden>Transcripts</Title>
      <search className="filters row wrap">
        <Search label="Search transcripts" text={asked.q} change={(q) => change({ q })} />
        <Choice
          label="Project"
          any="Project"
          value={asked.project}
          offered={useProjects(found)}
          name={(path) => oneLine(path.split("/").at(-1) ?? path)}
          change={(project) => change({ project })}
        />
        <Choice
          label="Who said it"
          any="Said by"
          value={asked.role}
          offered={roles}
          change={(role) => change({ role: role as Asked["role"] })}
        />
        <Since value={asked.since} change={(since) => change({ since })} />
        <span className="count number" role="status">
          {total !== undefined && counted(total, "session")}
        </span>
      </search>
      <BridgeAnswer query={{ data, error, refetch }}>
        {() =>
          found.length === 0 ? (
            <Nothing asked={asked} change={change} />
          ) : (
            <>
              <VirtualList
                role="list"
                aria-label={asked.q === "" ? "Newest sessions" : "Sessions with hits"}
                className="found"
                count={found.length}
                estimate={64}
                measured
                rowKey={rowKey}
                onNearEnd={more}
                row={(index) => {
                  const each = found[index];
                  return each && <FoundRow found={each} />;
                }}
              />
              {isFetchNextPageError && <FurtherFailed error={error} retry={() => void fetchNextPage()} />}
            </>
          )
        }
      </BridgeAnswer>
    </div>
  );
}

const idOf = (found: Found | undefined): string | undefined =>
  found && ("match" in found ? found.match : found.session).session_id;

/** The different projects, that of the first session first. */
const useProjects = (found: readonly Found[]): string[] =>
  useMemo(() => {
    const paths = found.map((each) => ("match" in each ? each.match : each.session).project_path);
    return [...new Set(paths)].filter((path) => path !== "");
  }, [found]);

type NothingProps = { asked: Asked; change: (changes: Partial<Asked>) => void };

const Nothing = ({ asked, change }: NothingProps) =>
  Object.values(asked).some((value) => value !== "") ? (
    <Empty title="No session has this">
      All words must occur in one entry. <code>"a phrase"</code>, <code>OR</code>, <code>-not</code> and{" "}
      <code>prefix*</code> work.{" "}
      <button type="button" onClick={() => change({ q: "", project: "", role: "", since: "" })}>
        Show all sessions
      </button>
    </Empty>
  ) : (
    <Empty title="No sessions yet">
      Sessions of coding agents are found where <code>BRIDGE_AGENT_HOME</code> says.{" "}
      <code>bridge status</code> shows what is read.
    </Empty>
  );
