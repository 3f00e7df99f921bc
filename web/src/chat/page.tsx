import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { ClientError } from "../../../src/client/client-error.ts";
import { useIsNarrow } from "../parts/media.ts";
import { newKey } from "../parts/new-key.ts";
import { Answer, Empty } from "../parts/states.tsx";
import { Ago } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { client, queries } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { ConversationPane } from "./conversation-pane.tsx";
import { readConversations, removeConversation, type Conversation } from "./history.ts";
import { conversationsKey, leaveTalk } from "./talk.ts";
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
      <ConversationPane
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
    <nav className="conversations" aria-label="Conversations">
      {create}
      <ul>
        {list.map((each) => (
          <li key={each.id}>
            <button
              type="button"
              className="quiet"
              aria-current={each.id === id ? "true" : undefined}
              onClick={() => open(each.id)}
            >
              <span>{each.title}</span> <Ago at={new Date(each.at).toISOString()} />
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
};
