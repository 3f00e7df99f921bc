/** What the real CLI refuses, in its words. */
const refuse = (message) => {
  process.stderr.write(`${message}\n`);
  process.exit(1);
};

/** Options with one value; of one given twice the last counts. */
const withValue = new Set(
  "input-format output-format session-id resume model max-turns settings worktree permission-mode effort setting-sources append-system-prompt system-prompt max-budget-usd fallback-model json-schema permission-prompt-tool".split(
    " ",
  ),
);
/** Options that take all that follows up to the next one. */
const withList = new Set(
  "add-dir mcp-config tools allowedTools allowed-tools disallowedTools disallowed-tools".split(" "),
);

export const parseArguments = (given) => {
  const argv = given.flatMap(splitAssignment);
  if (argv.includes("--version")) {
    process.stdout.write("2.1.197 (fake agent)\n");
    process.exit(0);
  }
  const options = { flags: [], argv: given };
  for (let at = 0; at < argv.length; at += 1) {
    const name = argv[at].replace(/^--/, "");
    if (withValue.has(name)) {
      at += 1;
      options[camel(name)] = argv[at];
    } else if (withList.has(name)) {
      const list = [];
      while (at + 1 < argv.length && !argv[at + 1].startsWith("-")) list.push(argv[(at += 1)]);
      options[camel(name)] = [...(options[camel(name)] ?? []), ...list];
    } else {
      options.flags.push(argv[at]);
    }
  }
  check(options);
  return { model: "sonnet", ...options };
};

const check = ({ flags, sessionId, outputFormat, permissionMode }) => {
  const bypass = flags.includes("--dangerously-skip-permissions") || permissionMode === "bypassPermissions";
  if (bypass && process.getuid?.() === 0 && process.env.IS_SANDBOX !== "1") {
    refuse("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons");
  }
  if (outputFormat === "stream-json" && !flags.includes("--verbose")) {
    refuse("Error: When using --print, --output-format=stream-json requires --verbose");
  }
  if (sessionId !== undefined && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(sessionId)) {
    refuse("Error: Invalid session ID. Must be a valid UUID.");
  }
};

/** `--name=value` is `--name value`. */
const splitAssignment = (argument) => {
  const [, name, value] = /^(--[\w-]+)=([^]*)$/.exec(argument) ?? [];
  return name === undefined ? [argument] : [name, value];
};

const camel = (name) => name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());
