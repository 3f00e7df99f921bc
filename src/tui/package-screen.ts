import { existsSync } from "node:fs";
import { join } from "node:path";
import { oneLine, sanitise } from "../view/sanitise.ts";
import type { LocalAgent } from "../main/local-agents.ts";
import { actionSection } from "./actions.ts";
import { createList, listScreen } from "./list.ts";
import { runWithTerminal } from "./takeover.ts";
import { textScreen } from "./text-screen.ts";
import type { Screen } from "./ui.ts";
import type { World } from "./world.ts";

/** What can be done with an agent package on this machine. */
export const packageScreen = ({ ui, agentCli }: World, agent: LocalAgent): Screen => {
  const { name, path, error, system_prompt: prompt } = agent;
  const files = join(path, "package");
  const args = prompt === null ? [] : ["--append-system-prompt", prompt];
  const chat = () => runWithTerminal({ program: agentCli, args }, existsSync(files) ? files : path);
  const edit = () => runWithTerminal({ program: "sh", args: ["-c", editor, "sh", path] });
  const config = textScreen(ui, {
    title: `Config of ${oneLine(name)}`,
    load: () => sanitise(JSON.stringify(agent, null, 2)),
  });
  const list = createList(ui, () => [
    actionSection(ui, [
      { name: "Open Chat", about: "the agent CLI with this package", run: () => ui.takeOver(chat) },
      { name: "Open in editor", about: "in $VISUAL or $EDITOR", run: () => ui.takeOver(edit) },
      { name: "View Config", about: "its definition, prompt and servers", run: () => ui.open(config) },
    ]),
  ]);
  return listScreen(ui, {
    title: () => `${oneLine(name)}  local package  ${oneLine(path)}`,
    list,
    faults: () => (error === null ? [] : [error]),
    hints: () => "1-3 choose  Esc back  ? help",
    keys: {},
  });
};

/** The variables may have options. */
const editor = 'eval "${VISUAL:-${EDITOR:-vi}} \\"\\$1\\""';
