import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { useSearchParams } from "wouter";
import { ClientError } from "../../../src/client/client-error.ts";
import { duration } from "../../../src/view/quantities.ts";
import { ConversationPane } from "../conversation/pane.tsx";
import { useIsNarrow } from "../parts/media.ts";
import { newKey } from "../parts/new-key.ts";
import { Answer, Empty } from "../parts/states.tsx";
import { Ago, Duration } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { client, queries } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { createStore } from "../shell/store.ts";
import { textOf } from "./answer.ts";
import { readConversations, removeConversation, type Conversation, type Turn } from "./history.ts";
import { ask, conversationsKey, leaveTalk, run, talkOf } from "./talk.ts";
import { kinds, show, visibility, type Kind, type Shown } from "./visibility.ts";
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
          Start it with <code>AGENT_MODE=true svc serve</code>. The agent then runs commands on its machine:
          read <code>docs/use/chat.md</code> first.
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
  useShortcut("n", "New conversation", begin);
  if (kept.isPending) return null;
  return (
    <div className="chat">
      <Conversations list={list} id={id} open={(c) => setParams(c === "" ? {} : { c })} begin={begin} />
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

type ListProps = {
  list: readonly Conversation[];
  id: string;
  open: (id: string) => void;
  begin: () => void;
};

const Conversations = ({ list, id, open, begin }: ListProps) => {
  const create = (
    <button type="button" onClick={begin}>
      New conversation
    </button>
  );
  if (useIsNarrow())
    return (
      <div className="conversations">
        <select
          aria-label="Conversation"
          value={list.some((each) => each.id === id) ? id : ""}
          onChange={({ target }) => open(target.value)}
        >
          <option value="">This conversation</option>
          {list.map((each) => (
            <option key={each.id} value={each.id}>
              {each.title}
            </option>
          ))}
        </select>
        {create}
      </div>
    );
  return (
    <nav className="conversations column" aria-label="Conversations">
      {create}
      <ul>
        {list.map((each) => (
          <li key={each.id}>
            <button
              type="button"
              className="quiet row"
              aria-current={each.id === id ? "true" : undefined}
              onClick={() => open(each.id)}
            >
              <span className="cut grow">{each.title}</span> <Ago at={new Date(each.at).toISOString()} />
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
};

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
  const shown = useQuery({ ...visible, queryFn: ({ signal }) => visibility(signal) });
  useShortcut("Escape", "Stop the answer", () => stop?.());

  const send = (question: string): void => {
    onAsk();
    const title = known?.title ?? (question.trim().split("\n")[0] ?? "").slice(0, 80);
    const isLive = shown.data === undefined || (shown.data.narration && shown.data.final);
    void ask({ id, title, model, at: Date.now() }, { id: newKey(), question, isLive }).then(
      // Words in the question may have changed it.
      () => queries.invalidateQueries({ queryKey: visible.queryKey }),
    );
  };

  return (
    <section className="column" aria-label="Conversation">
      <div className="chat-options row">
        <label>
          Model{" "}
          <select value={model} onChange={({ target }) => choose(target.value)}>
            {models.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {shown.data && <VisibilityBoxes shown={shown.data} />}
        {onRemove && (
          <button type="button" className="quiet" onClick={onRemove}>
            Remove conversation
          </button>
        )}
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
      <p className="ending">
        Working <Duration from={new Date(began).toISOString()} to={null} />
      </p>
    );
  if (state === "failed" || state === "cut")
    return (
      <div className="ending fault" role="alert">
        <p>{state === "cut" ? `The connection ended before the answer did. ${error ?? ""}` : error}</p>
        {isLast && (
          <button type="button" onClick={() => void run(turn)}>
            {state === "cut" ? "Get the answer" : "Try again"}
          </button>
        )}
      </div>
    );
  return (
    <p className="ending">
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
    // While letters are composed, Enter chooses among them.
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Escape") stop?.();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      className="composer row"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={field}
        aria-label="Message"
        placeholder="Message. Enter sends, Shift Enter begins a line"
        rows={2}
        maxLength={1_000_000}
        value={text}
        onChange={({ target }) => draft.set(target.value)}
        onKeyDown={onKeyDown}
      />
      {stop === null ? (
        <button type="submit" className="primary" disabled={!canSend}>
          Send
        </button>
      ) : (
        <button type="button" onClick={stop}>
          Stop <kbd>esc</kbd>
        </button>
      )}
    </form>
  );
};

const visible = { queryKey: ["chat", "visibility"] };

const labels: Record<Kind, string> = {
  thinking: "Thinking",
  tools: "Tools",
  narration: "Narration",
  final: "Final answer",
};

const VisibilityBoxes = ({ shown }: { shown: Shown }) => {
  const change = useMutation({
    mutationFn: ({ kind, isShown }: { kind: Kind; isShown: boolean }) => show(kind, isShown, shown),
    onSuccess: (now) => queries.setQueryData(visible.queryKey, now),
    onSettled: () => setClicked({}),
  });
  // Set at once: the mutation's own state comes a moment later, and the box would jump back in between.
  const [clicked, setClicked] = useState<Partial<Shown>>({});
  const current = { ...shown, ...clicked };
  return (
    <fieldset className="row" disabled={change.isPending}>
      <legend>Shown, to everyone who talks to this agent</legend>
      {kinds.map((kind) => (
        <label key={kind} className="row">
          <input
            type="checkbox"
            checked={current[kind]}
            onChange={({ target }) => {
              setClicked({ [kind]: target.checked });
              change.mutate({ kind, isShown: target.checked });
            }}
          />
          {labels[kind]}
        </label>
      ))}
      {change.error && (
        <span role="alert" className="fault">
          {change.error.message}
        </span>
      )}
    </fieldset>
  );
};
