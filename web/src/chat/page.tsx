import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Link, useSearchParams } from "wouter";
import { ClientError } from "../../../src/client/client-error.ts";
import type { Visibility } from "../../../src/contract/visibility.ts";
import { duration } from "../../../src/view/quantities.ts";
import { ConversationPane } from "../conversation/pane.tsx";
import { Select } from "../parts/filters.tsx";
import { isComposing } from "../parts/keys.ts";
import { useIsNarrow, useIsTouched } from "../parts/media.ts";
import { Answer, Empty, Title } from "../parts/states.tsx";
import { useRead } from "../parts/read.ts";
import { Ago, Duration } from "../parts/values.tsx";
import { client, queries, newKey } from "../shell/service.ts";
import { Button, useShortcut } from "../shell/shortcuts.tsx";
import { createStore } from "../shell/store.ts";
import { textOf, changeOf, isShown, kinds, type Kind } from "./answer.ts";
import { readConversations, removeConversation, type Conversation, type Turn } from "./history.ts";
import { ask, conversationsKey, leaveTalk, run, talkOf } from "./talk.ts";
import "./chat.css";

export default function ChatPage() {
  const models = useQuery({
    queryKey: ["chat", "models"],
    queryFn: ({ signal }) => client().chatModels({ signal }),
  });
  const isOff = models.error instanceof ClientError && models.error.status === 404;
  return (
    <>
      <Title hidden>Chat</Title>
      {isOff ? (
        <Empty title="This service has no agent to talk to">
          Start it with <code>AGENT_MODE=true svc serve</code>. The agent then runs commands on the service's
          machine, in its sandbox: <code>svc doctor</code> says whether there is one.
        </Empty>
      ) : (
        <Answer query={models}>{(list) => <Chat models={list.map(({ id }) => id)} />}</Answer>
      )}
    </>
  );
}

/** Ids of this page, and those that others can have given: the id becomes a header. */
const idForm = /^[\w.:-]{1,200}$/;

const Chat = ({ models }: { models: readonly string[] }) => {
  const [params, setParams] = useSearchParams();
  const [fresh, setFresh] = useState(newKey);
  const asked = params.get("c") ?? "";
  const id = idForm.test(asked) ? asked : fresh;
  const kept = useQuery({ queryKey: conversationsKey, queryFn: readConversations, retry: false });
  const list = kept.data ?? [];
  const current = list.find((each) => each.id === id);
  const begin = (): void => {
    setFresh(newKey());
    setParams({});
  };
  const remove = async ({ title }: Conversation): Promise<void> => {
    if (!confirm(`Remove “${title}” from this browser?`)) return;
    leaveTalk(id);
    await removeConversation(id);
    await queries.invalidateQueries({ queryKey: conversationsKey });
    begin();
  };
  if (kept.isPending) return null;
  return (
    <div className="chat">
      <Conversations list={list} id={id} begin={begin} />
      <Talk
        key={id}
        id={id}
        known={current}
        models={models}
        onAsk={() => asked !== id && setParams({ c: id }, { replace: true })}
        onRemove={current && (() => void remove(current))}
      />
    </div>
  );
};

type ListProps = { list: readonly Conversation[]; id: string; begin: () => void };

const Conversations = ({ list, id, begin }: ListProps) => (
  <nav className="conversations" aria-label="Conversations">
    <Button text="New conversation" keys="n" label="New conversation" run={begin} />
    {list.map((each) => (
      <Link
        key={each.id}
        className="item row between"
        href={`/chat?c=${each.id}`}
        aria-current={each.id === id || undefined}
      >
        <span className="cut grow">{each.title}</span> <Ago at={new Date(each.at).toISOString()} />
      </Link>
    ))}
  </nav>
);

type TalkProps = {
  id: string;
  known: Conversation | undefined;
  models: readonly string[];
  onAsk: () => void;
  /** Absent: there is nothing to remove. */
  onRemove: (() => void) | undefined;
};

const Talk = ({ id, known, models, onAsk, onRemove }: TalkProps) => {
  const talk = talkOf(id);
  const turns = talk.turns.use();
  const stop = talk.stop.use();
  const [first = ""] = models;
  const [chosen, choose] = useState<string | null>(null);
  const wanted = chosen ?? known?.model ?? first;
  const model = models.includes(wanted) ? wanted : first;
  const shown = useRead("get_visibility", {}).data?.visibility;
  const isNarrow = useIsNarrow();

  const send = (question: string): void => {
    onAsk();
    const title = known?.title ?? (question.trim().split("\n")[0] ?? "").slice(0, 80);
    const isLive = shown === undefined || (isShown(shown, "narration") && isShown(shown, "final"));
    void ask({ id, title, model, at: Date.now() }, { id: newKey(), question, isLive }).then(
      // Words in the question may have changed it.
      () => queries.invalidateQueries({ queryKey: ["get_visibility"] }),
    );
  };

  return (
    <section className="column" aria-label="Conversation">
      <div className="strip row wrap soft">
        <label>
          Model <Select value={model} options={models.map((name) => [name])} change={choose} />
        </label>
        {shown && (
          // Open where there is room.
          <details key={String(isNarrow)} open={!isNarrow}>
            <summary className="narrow-only">What is shown</summary>
            <VisibilityBoxes shown={shown} />
          </details>
        )}
        {onRemove && <Button text="Remove conversation" className="quiet end" run={onRemove} />}
      </div>
      <div className="grow">
        {turns?.length === 0 ? (
          <Empty title="Ask the agent">
            It works in a directory of its own, with its tools. Conversations stay in this browser until you
            remove them.
          </Empty>
        ) : (
          turns && <Turns turns={turns} />
        )}
      </div>
      <p role="status" className="visually-hidden">
        {spoken(turns?.at(-1))}
      </p>
      <Composer send={send} stop={stop} isReady={turns !== null} />
    </section>
  );
};

const Turns = ({ turns }: { turns: readonly Turn[] }) => {
  const [at, select] = useState(-1);
  return (
    <ConversationPane
      label="Messages"
      count={turns.length}
      entry={(index) => {
        const turn = turns[index];
        return (
          turn && {
            seq: turn.at,
            type: "turn",
            parts: [{ type: "question", text: turn.question }, ...turn.blocks],
            isLive: turn.state === "running",
          }
        );
      }}
      end={(index) => {
        const turn = turns[index];
        return turn && <Ending turn={turn} isLast={index === turns.length - 1} />;
      }}
      at={at}
      select={select}
      follows
      newest={turns.length}
      canFind
    />
  );
};

const Ending = ({ turn, isLast }: { turn: Turn; isLast: boolean }) => {
  const { state, tokens, ms, error, began } = turn;
  if (state === "running")
    return (
      <p className="ending small">
        Working <Duration from={new Date(began).toISOString()} to={null} />
      </p>
    );
  if (state === "failed" || state === "cut")
    return (
      <div className="ending fault stack" role="alert">
        <p>{state === "cut" ? `The connection ended before the answer did. ${error ?? ""}` : error}</p>
        <p>
          {isLast && (
            <Button text={state === "cut" ? "Get the answer" : "Try again"} run={() => void run(turn)} />
          )}
        </p>
      </div>
    );
  return (
    <p className="ending small">
      {state === "stopped" && "Stopped "}
      <span className="number">{duration(ms)}</span>
      {tokens && tokens.read + tokens.written > 0 && (
        <span className="number">
          {` · ${tokens.read.toLocaleString("en")} tokens read, ${tokens.written.toLocaleString("en")} written`}
        </span>
      )}
    </p>
  );
};

/** What those hear who do not see the answer grow. */
const spoken = (turn: Turn | undefined): string => {
  if (turn?.state === "running") return "The agent is working";
  if (turn?.state === "done") return `The agent says: ${textOf(turn.blocks.slice(-1)).slice(0, 2000)}`;
  return turn?.state === "stopped" ? "The answer was stopped" : "";
};

/** What is typed, kept while another page is shown. */
const draft = createStore("");

type ComposerProps = { send: (question: string) => void; stop: (() => void) | null; isReady: boolean };

const Composer = ({ send, stop, isReady }: ComposerProps) => {
  const text = draft.use();
  const field = useRef<HTMLTextAreaElement>(null);
  useShortcut("Enter", "Write a message", () => field.current?.focus());
  useEffect(() => field.current?.focus(), []);
  const canSend = isReady && stop === null && text.trim() !== "";
  const submit = (): void => {
    if (!canSend) return;
    draft.set("");
    send(text);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isComposing(event.nativeEvent)) return;
    if (event.key === "Escape") stop?.();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit();
  };
  return (
    <div className="composer row">
      <textarea
        ref={field}
        aria-label="Message"
        placeholder={useIsTouched() ? "Message" : "Message. Enter sends, Shift Enter begins a line"}
        rows={2}
        maxLength={1_000_000}
        value={text}
        onChange={({ target }) => draft.set(target.value)}
        onKeyDown={onKeyDown}
      />
      {stop === null ? (
        <Button text="Send" className="primary" disabled={!canSend} run={submit} />
      ) : (
        <Button text="Stop" keys="Escape" label="Stop the answer" run={stop} />
      )}
    </div>
  );
};

const labels: Record<Kind, string> = {
  thinking: "Thinking",
  tools: "Tools",
  narration: "Narration",
  final: "Final answer",
};

const everyone = "Visible for everyone:";

const VisibilityBoxes = ({ shown }: { shown: Visibility }) => {
  // Set at once: the mutation's own state comes a moment later, and the box would jump back in between.
  const [clicked, setClicked] = useState<Partial<Visibility>>({});
  const change = useMutation({
    mutationFn: (changes: Partial<Visibility>) => client().set_visibility(changes),
    onSuccess: (answer) => queries.setQueryData(["get_visibility", {}], answer),
    onSettled: () => setClicked({}),
  });
  return (
    <div role="group" aria-label={everyone} className="row wrap">
      <span className="small faint">{everyone}</span>
      {kinds.map((kind) => (
        <label key={kind} className="row">
          <input
            type="checkbox"
            disabled={change.isPending}
            checked={isShown({ ...shown, ...clicked }, kind)}
            onChange={({ target }) => {
              const changes = changeOf(shown, kind, target.checked);
              setClicked(changes);
              change.mutate(changes);
            }}
          />
          {labels[kind]}
        </label>
      ))}
      <span role="alert" className="fault">
        {change.error?.message}
      </span>
    </div>
  );
};
