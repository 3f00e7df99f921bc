import type { Redactor } from "../../lib/redact.ts";
import type { AgentTurn, Reply } from "../agent.ts";
import type { DecoderFacts } from "./decode.ts";
import {
  errorLine,
  hookDefers,
  hookDenies,
  permissionOf,
  refusal,
  refusalWarning,
  responseLine,
  shown,
  type ToolCall,
  withPlan,
} from "./replies.ts";
import { ControlCancel, ControlRequest, HookCallback, ToolPermission } from "./wire.ts";

type Options = {
  /** Writes to the CLI; drops what comes after the end of its input. */
  write: (line: string) => void;
  redact: Redactor;
  /** Permission mode in which the agent works once its plan is approved. */
  approvedMode: string;
  /** The agent's message under way, or the last one. */
  message: () => DecoderFacts["message"];
  /** Called before a question is deferred. */
  onDefer: () => void;
  /** The agent's last words, for a plan that it has only said. */
  lastWords: () => string;
};

/** The turn that the CLI's requests belong to. */
type Listener = {
  onAsk: AgentTurn["onAsk"];
  warn: (message: string) => void;
  /** Called when an ask is opened or closed, with whether one is open. */
  onWait: (isWaiting: boolean) => void;
  /** Ends the process: when the session is resumed, it asks again. */
  end: () => void;
};

type OpenAsk = {
  requestId: string;
  /** A hook can let the call through or defer it; a permission can only be given or refused. */
  by: "hook" | "permission";
  call: ToolCall;
};

/** Requests of the CLI, each of which must be answered: it waits for that without a limit. */
export const createAsks = ({ write, redact, approvedMode, message, onDefer, lastWords }: Options) => {
  /** By the tool call's id. */
  const open = new Map<string, OpenAsk>();
  /** Replies to calls that a hook has let through, until the CLI asks for their permission. */
  const replies = new Map<string, { given: Reply; asked: ToolCall }>();
  let listener: Listener | null = null;
  let early: unknown[] = [];
  let isDeferred = false;
  /** Asks in a message whose end has not come. */
  let unread: OpenAsk[] = [];

  const answer = (requestId: string, response: object): void => write(responseLine(requestId, response));
  const permit = (requestId: string, call: ToolCall, reply: Reply): void =>
    answer(requestId, permissionOf(call, reply, { redact, approvedMode }));

  const close = (id: string): void => {
    open.delete(id);
    if (open.size === 0) listener?.onWait(false);
  };
  const defer = ({ requestId, by }: OpenAsk): void => {
    isDeferred = true;
    onDefer();
    if (by === "hook") answer(requestId, hookDefers);
    else listener?.end();
    // Of several at once none can stay: the turn ends.
    for (const other of open.values()) reply(other, { kind: "defer" });
  };
  const reply = (ask: OpenAsk, given: Reply): void => {
    const { requestId, by, call } = ask;
    if (open.get(call.id) !== ask) return;
    close(call.id);
    if (given.kind === "defer") return defer(ask);
    if (by === "permission") return permit(requestId, call, given);
    replies.set(call.id, { given, asked: call });
    answer(requestId, {});
  };
  const ask = (unplanned: OpenAsk): void => {
    const call = withPlan(unplanned.call, lastWords);
    const asked = { ...unplanned, call };
    open.set(call.id, asked);
    listener?.onWait(true);
    if (isDeferred) return reply(asked, { kind: "defer" });
    if (listener?.onAsk === undefined) return reply(asked, { kind: "send_back", feedback: nobody });
    listener.onAsk({ id: call.id, ...shown(call, redact), reply: (given) => reply(asked, given) });
  };

  /** An answer that comes after a resume is lost (2.1.197) if there were other calls beside. */
  const askUnread = (): void => {
    if (unread.length === 0 || message().isOpen) return;
    const isAlone = message().calls < 2;
    for (const asked of unread.splice(0))
      if (isAlone) ask(asked);
      else answer(asked.requestId, hookDenies(alone));
  };

  const onHook = (requestId: string, request: unknown): void => {
    const { tool_use_id: id, input } = HookCallback.parse(request);
    const call = { id, name: input.tool_name, input: input.tool_input };
    if (!isAsk(call)) return answer(requestId, {});
    unread.push({ requestId, by: "hook", call });
    askUnread();
  };
  const onPermission = (requestId: string, request: unknown): void => {
    const { tool_use_id: id, tool_name: name, input, decision_reason } = ToolPermission.parse(request);
    const call = { id, name, input };
    const known = replies.get(id);
    replies.delete(id);
    if (known !== undefined)
      return permit(requestId, { ...call, input: { ...known.asked.input, ...input } }, known.given);
    if (isAsk(call)) return ask({ requestId, by: "permission", call });
    answer(requestId, refusal);
    listener?.warn(refusalWarning(call, decision_reason ?? "", redact));
  };

  /** Takes a line of the type `control_request` or `control_cancel_request`. */
  const take = (line: unknown): void => {
    if (listener === null) return void early.push(line);
    const cancelled = ControlCancel.safeParse(line);
    if (cancelled.success) {
      const isCancelled = ({ requestId }: OpenAsk): boolean => requestId === cancelled.data.request_id;
      const dropped = [...open.values()].find(isCancelled);
      unread = unread.filter((asked) => !isCancelled(asked));
      return dropped && close(dropped.call.id);
    }
    const { data } = ControlRequest.safeParse(line);
    if (data === undefined) return;
    const { request_id: requestId, request } = data;
    try {
      if (request.subtype === "hook_callback") onHook(requestId, request);
      else if (request.subtype === "can_use_tool") onPermission(requestId, request);
      else throw new Error(`Unsupported control request subtype: ${request.subtype}`);
    } catch (error) {
      write(errorLine(requestId, error));
    }
  };

  return {
    take,
    /** Whether a question waits for its answer. */
    isOpen: (): boolean => open.size > 0,
    /** The CLI wrote a line. */
    lineRead: askUnread,
    /** What comes between turns waits for this: a process that resumes a deferred question asks it unprompted. */
    listen: (next: Listener): void => {
      listener = next;
      isDeferred = false;
      for (const line of early.splice(0)) take(line);
    },
    /** The turn has ended: nothing can be answered any more. */
    drop: (): void => {
      listener = null;
      open.clear();
      unread = [];
      replies.clear();
    },
  };
};

const isAsk = ({ name }: ToolCall): boolean => name === "AskUserQuestion" || name === "ExitPlanMode";

const alone =
  "Not asked: the call must be the only one in its message. Make it again when the others have their results, with all questions in one call.";

const nobody = "Nobody can be asked here. Decide for yourself, and say in the end what you have decided.";
