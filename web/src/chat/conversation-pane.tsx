import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";
import { keepPlace } from "../parts/keep-place.ts";
import { newKey } from "../parts/new-key.ts";
import { Empty } from "../parts/states.tsx";
import { queries } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { createStore } from "../shell/store.ts";
import type { Conversation, Turn } from "./history.ts";
import { ask, run, talkOf } from "./talk.ts";
import { textOf } from "./answer.ts";
import { TurnView } from "./turn-view.tsx";
import "../parts/conversation.css";
import { kinds, show, visibility, type Kind, type Shown } from "./visibility.ts";

type Props = {
  id: string;
  known: Conversation | undefined;
  models: readonly string[];
  onAsk: () => void;
  /** Absent: there is nothing to remove. */
  onRemove: (() => void) | undefined;
};

/** What is typed, kept while another page is shown. */
const draft = createStore("");

/** Turns that are shown at first, and more each time. */
const page = 50;

export const ConversationPane = ({ id, known, models, onAsk, onRemove }: Props) => {
  const talk = talkOf(id);
  const turns = talk.turns.use();
  const stop = talk.stop.use();
  const [first = ""] = models;
  const [chosen, choose] = useState<string | null>(null);
  const wanted = chosen ?? known?.model ?? first;
  const model = models.includes(wanted) ? wanted : first;
  const shown = useQuery({ ...visible, queryFn: ({ signal }) => visibility(signal) });
  const scroll = useScroll(turns);
  useShortcut("Escape", "Stop the answer", () => stop?.());

  const send = (question: string): void => {
    scroll.toEnd();
    onAsk();
    const title = known?.title ?? (question.trim().split("\n")[0] ?? "").slice(0, 80);
    const isLive = shown.data === undefined || (shown.data.narration && shown.data.final);
    void ask({ id, title, model, at: Date.now() }, { id: newKey(), question, isLive }).then(
      // Words in the question may have changed it.
      () => queries.invalidateQueries({ queryKey: visible.queryKey }),
    );
  };

  return (
    <section aria-label="Conversation">
      <div className="chat-options">
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
      <div
        className="turns"
        role="region"
        aria-label="Messages"
        tabIndex={0}
        ref={scroll.element}
        onScroll={scroll.onScroll}
      >
        {turns !== null && <Turns turns={turns} />}
      </div>
      <p role="status" className="visually-hidden">
        {spoken(turns?.at(-1))}
      </p>
      <Composer send={send} stop={stop} isReady={turns !== null} />
    </section>
  );
};

const Turns = ({ turns }: { turns: readonly Turn[] }) => {
  const [most, setMost] = useState(page);
  if (turns.length === 0)
    return (
      <Empty title="Ask the agent">
        It works in a directory of its own, with its tools. Conversations stay in this browser until you
        remove them.
      </Empty>
    );
  return (
    <>
      {turns.length > most && (
        <button
          type="button"
          onClick={({ currentTarget: { nextElementSibling: first } }) =>
            keepPlace(first, first?.closest(".turns") ?? null, () => setMost(most + page))
          }
        >
          Show earlier messages
        </button>
      )}
      {turns.slice(-most).map((turn) => (
        <TurnView key={turn.at} turn={turn} onRetry={turn === turns.at(-1) ? retry : undefined} />
      ))}
    </>
  );
};

const retry = (turn: Turn): void => void run(turn);

/** What those hear who do not see the answer grow. */
const spoken = (turn: Turn | undefined): string => {
  if (turn?.state === "running") return "The agent is working";
  if (turn?.state === "done") return `The agent says: ${textOf(turn.blocks.slice(-1)).slice(0, 2000)}`;
  return turn?.state === "stopped" ? "The answer was stopped" : "";
};

/** Keeps the end in view while the user is there. */
const useScroll = (turns: readonly Turn[] | null) => {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current) element.current?.scrollTo(0, element.current.scrollHeight);
  }, [turns]);
  return {
    element,
    toEnd: () => void (isAtEnd.current = true),
    onScroll: () => {
      const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = element.current ?? {};
      isAtEnd.current = scrollHeight - scrollTop - clientHeight < 60;
    },
  };
};

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
      className="composer"
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
    <fieldset disabled={change.isPending}>
      <legend>Shown, to everyone who talks to this agent</legend>
      {kinds.map((kind) => (
        <label key={kind}>
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
