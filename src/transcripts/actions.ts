import type { Action } from "../contract/transcript.ts";
import { abridged } from "./answer-size.ts";
import { textOf, textsIn, toTime, type Json } from "./json.ts";
import type { Call, Line } from "./transcript-line.ts";

const changing = new Set(["Write", "Edit", "MultiEdit", "NotebookEdit", "Update", "apply_patch"]);
const running = new Set(["Bash", "PowerShell", "shell", "local_shell", "shell_command", "exec_command"]);

const longestTarget = 300;

/** Actions of an agent, in the order of its lines; a call is an error when its result says so. */
export const actionsOf = async (lines: AsyncIterable<Line>): Promise<Action[]> => {
  const actions: Action[] = [];
  const called = new Map<string, { name: string; actions: Action[] }>();
  for await (const line of lines) {
    if (line.sidechain) continue;
    const add = (given: Omit<Action, "timestamp">): Action => {
      const action = { ...given, target: abridged(given.target, longestTarget), timestamp: toTime(line.at) };
      actions.push(action);
      return action;
    };
    for (const call of line.calls)
      called.set(call.id, { name: call.name, actions: actionsOfCall(call).map(add) });
    for (const { id, text: target, isError: is_error } of line.results) {
      const { name, actions: causes } = called.get(id) ?? { name: "", actions: [] };
      add({ type: "tool_result", name, target, is_error });
      if (!is_error) continue;
      add({ type: "error", name, target, is_error });
      for (const action of causes) action.is_error = true;
    }
    if (line.isError) add({ type: "error", name: "", target: line.content || line.more, is_error: true });
  }
  return actions;
};

const actionsOfCall = (call: Call): Omit<Action, "timestamp">[] => {
  const action = (type: Action["type"], target: string) => ({
    type,
    name: call.name,
    target,
    is_error: false,
  });
  const own = [action("tool_use", targetOf(call))];
  if (changing.has(call.name)) own.push(...filesOf(call).map((file) => action("file_change", file)));
  if (running.has(call.name)) own.push(action("command", commandOf(call.input) || targetOf(call)));
  return own;
};

const fileFields = ["file_path", "notebook_path", "path"];

const targetOf = ({ input }: Call): string =>
  fileFields.map((field) => textOf(input[field])).find((file) => file !== "") ||
  commandOf(input) ||
  textsIn(input);

/** Codex gives the words of a command. */
const commandOf = (input: Json): string => {
  const command = input["command"] ?? input["cmd"];
  return Array.isArray(command) ? command.map(textOf).join(" ") : textOf(command);
};

/** Codex changes files by a patch that names them. */
const filesOf = (call: Call): string[] =>
  call.name === "apply_patch"
    ? [...textsIn(call.input).matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm)].map(
        ([, file = ""]) => file,
      )
    : [targetOf(call)];
