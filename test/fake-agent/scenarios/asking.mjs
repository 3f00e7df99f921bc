import { findScenario } from "../scenarios.mjs";

/**
 * Asks `questions`, and does the work of the scenario `then` with what it is told, which is the `content` of the file
 * `answer.txt`. With `sisters` it first asks beside another call.
 */
export const ask = async (turn) => {
  const { questions = database, sisters = false } = turn.options;
  if (turn.deferred === null) turn.init();
  if (turn.deferred === null && sisters) await askBeside(turn, { questions });
  const allowed = ({ updatedInput: { questions: asked, answers } }) =>
    asked === undefined
      ? { content: "InputValidationError: the input failed schema validation", isError: true }
      : { content: toldBy(answers) };
  const told = await use(turn, "AskUserQuestion", { questions }, allowed);
  if (told !== null) await work(turn, told.content);
};

/** Calls run while their message still streams. */
const askBeside = async ({ asking, args, stream, assistant, toolResult }, input) => {
  const call = (id, name, given) => {
    const content = [{ type: "tool_use", id, name, input: given }];
    assistant([], { message: { id: "msg_beside", role: "assistant", model: `fake-${args.model}`, content } });
  };
  stream({ type: "message_start", message: { id: "msg_beside" } });
  call("toolu_asked", "AskUserQuestion", input);
  const asked = asking.permission({ id: "toolu_asked", name: "AskUserQuestion", input });
  call("toolu_beside", "Bash", { command: "echo beside" });
  stream({ type: "message_stop" });
  toolResult("toolu_beside", "beside");
  const { behavior, message } = await asked;
  toolResult("toolu_asked", message ?? "answered", { isError: behavior !== "allow" });
};

const toldBy = (answers = {}) => {
  const pairs = Object.entries(answers).map(([question, answer]) => `"${question}"="${answer}"`);
  return pairs.length === 0
    ? "The user did not answer the questions."
    : `Your questions have been answered: ${pairs.join(", ")}. You can now continue with these answers in mind.`;
};

/** Has its plan, `text`, approved: who sends it back gets a new one that holds his words. Then it works as `ask`. */
export const plan = async (turn) => {
  let text = turn.deferred?.input.plan ?? turn.options.text ?? "# Plan\n1. Write the file.";
  if (turn.deferred === null) turn.init();
  for (;;) {
    if (turn.deferred === null || turn.deferred.isTaken) turn.say(text);
    const told = await use(turn, "ExitPlanMode", turn.options.bare ? {} : { plan: text }, (response) =>
      approved(turn, text, response),
    );
    if (told === null) return;
    if (!told.isError || told.isMissing) return await work(turn, told.content, told.mayWrite !== false);
    text = `${text}\n${told.content}`;
  }
};

const approved = ({ line, common }, text, { updatedInput, updatedPermissions = [] }) => {
  const permissionMode = updatedPermissions.find(({ type }) => type === "setMode")?.mode ?? "default";
  line({ type: "system", subtype: "status", status: null, permissionMode, ...common() });
  const { plan: approvedText = "" } = updatedInput ?? {};
  const edited = approvedText === text ? "" : " (edited by user)";
  return {
    content: `User has approved your plan. You can now start coding.\n\n## Approved Plan${edited}:\n${approvedText}`,
    mayWrite: ["acceptEdits", "bypassPermissions"].includes(permissionMode),
  };
};

/**
 * Uses a tool that asks a person: what it tells, by `allowed` if the person allows it, null if the turn has ended since it is
 * deferred. Of a resumed session the first use is the one that was deferred.
 */
const use = async (turn, name, input, allowed) => {
  const { asking, args, options, deferred, toolResult } = turn;
  const isMissing = !asking.offers(name) || (name === "ExitPlanMode" && args.permissionMode !== "plan");
  const again = deferred !== null && !deferred.isTaken;
  if (again && isMissing) return unavailable(turn);
  const asked = again ? deferred : { id: turn.call(name, input), name, input };
  if (again) deferred.isTaken = true;
  if (isMissing) return missing(turn, name, asked.id);
  const response = await asking.permission(asked, { hookless: again && options.hookless === true });
  if (response === null) return turn.defer(asked);
  const isAllowed = response.behavior === "allow";
  const told = isAllowed ? allowed(response) : { content: response.message, isError: true };
  toolResult(asked.id, told.content, told);
  if (again) {
    turn.settle(told.content);
    turn.init();
  }
  return told;
};

const missing = ({ toolResult, say }, name, id) => {
  const content = `<tool_use_error>Error: No such tool available: ${name}</tool_use_error>`;
  toolResult(id, content, { isError: true });
  say(`I cannot ask: ${content}`);
  return { content, isError: true, isMissing: true };
};

const unavailable = ({ result }) => {
  result({ is_error: true, result: "", stop_reason: "tool_deferred_unavailable" });
  return null;
};

const work = async (turn, content, mayWrite = true) => {
  const { then = "work", ...options } = turn.options;
  if (!mayWrite) {
    turn.say("I may not write.");
    return turn.result({ result: "I may not write." });
  }
  const scenario = await findScenario(then);
  return await scenario({
    ...turn,
    init: () => {},
    options: { file: "answer.txt", ...options, content: `${content}\n` },
  });
};

/** Calls a tool for which even a run that may do everything needs a permission: `command`. Says what it was told. */
export const danger = async (turn) => {
  const { options, asking, call, toolResult, init, say, result } = turn;
  const input = { command: options.command ?? "rm -rf /", description: "Dangerous" };
  const more = {
    decision_reason: "Dangerous rm operation on critical path: /",
    decision_reason_type: "safetyCheck",
    classifier_approvable: false,
  };
  init();
  const id = call("Bash", input);
  const response =
    turn.args.permissionPromptTool === "stdio"
      ? await asking.permission({ id, name: "Bash", input }, { more })
      : { behavior: "deny", message: "Permission to use Bash has been denied." };
  const told = response.behavior === "allow" ? "Everything is gone." : response.message;
  toolResult(id, told, { isError: response.behavior !== "allow" });
  say(told);
  result({ result: told });
};

/** Requests something by `subtype` that an older caller does not know, and says how it was answered. */
export const request = async ({ options, asking, init, say, result }) => {
  init();
  const told = JSON.stringify(await asking.request({ subtype: options.subtype ?? "novelty" }));
  say(told);
  result({ result: told });
};

const database = [
  {
    question: "Which database?",
    header: "Database",
    options: [
      { label: "Postgres", description: "A server" },
      { label: "SQLite", description: "A file" },
    ],
    multiSelect: false,
  },
];
