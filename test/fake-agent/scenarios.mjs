/** Which file has which scenario: only that one is loaded. */
const files = {
  work: "work noop commit-nothing commit-dirt shell delete-worktree touch-siblings remember",
  endings:
    "hang hang-after-result results ignore-term exit-without-result exit-nonzero-after-result error-result die false-second-result close-stdout work-after-result",
  model: "rate-limit auth-error api-error max-turns budget retries",
  output:
    "flood split cut-65536 huge-line invalid-json unknown-events stderr-flood slow-deltas sleep broken-stream subagent print-env burst",
  processes: "grandchildren respawner",
  paced: "paced",
  listening: "listen",
  asking: "ask plan danger request",
  chat: "chat echo interrupt-deaf restless",
};

/**
 * `scenario: NAME {json options}` anywhere in the prompt, on one line; of several the last, for a prompt may tell what was
 * said before. Without it the one of FAKE_AGENT_SCENARIO, written likewise, else `work`.
 */
export const parseTask = (prompt) => {
  const told = [...prompt.matchAll(/scenario:\s*([\w-]+)[ \t]*(\{.*\})?/g)].at(-1);
  const [, name = "work", json = "{}"] = told ?? standard() ?? [];
  return { name, options: JSON.parse(json) };
};

const standard = () => /([\w-]+)[ \t]*(\{.*\})?/.exec(process.env.FAKE_AGENT_SCENARIO ?? "");

export const findScenario = async (name) => {
  const file = Object.keys(files).find((key) => files[key].split(" ").includes(name));
  if (file === undefined) {
    process.stderr.write(`fake-agent: there is no scenario "${name}"\n`);
    process.exit(64);
  }
  return (await import(`./scenarios/${file}.mjs`))[camel(name)];
};

const camel = (name) => name.replace(/-([a-z0-9])/g, (_, letter) => letter.toUpperCase());
