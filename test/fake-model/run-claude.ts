import { runProgram } from "../fake-git-host/run-program.ts";

type ClaudeEvent = { type: string; subtype?: string } & Record<string, unknown>;

/** One run of the real Claude Code CLI, of the one on PATH if none is named, against the model at `url`, its home and configuration in `home`. */
export const runClaude = async (
  prompt: string,
  { url, home, cwd, token = "token-of-the-test", args = [], cli = "claude" }: ClaudeRun,
) => {
  const fixed = [
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--dangerously-skip-permissions",
  ];
  const { code, stdout, stderr } = await runProgram(
    cli,
    ["-p", prompt, ...fixed, "--setting-sources", "user", "--strict-mcp-config", ...args],
    {
      cwd,
      env: {
        HOME: home,
        CLAUDE_CONFIG_DIR: home,
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: token,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        CLAUDE_CODE_MAX_RETRIES: "1",
        DISABLE_AUTOUPDATER: "1",
        IS_SANDBOX: "1",
        GIT_AUTHOR_NAME: "Agent",
        GIT_AUTHOR_EMAIL: "agent@example.com",
        GIT_COMMITTER_NAME: "Agent",
        GIT_COMMITTER_EMAIL: "agent@example.com",
        GIT_CONFIG_NOSYSTEM: "1",
      },
    },
  );
  const events = stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as ClaudeEvent]));
  return { code, stderr, events, result: events.find(({ type }) => type === "result") };
};

type ClaudeRun = { url: string; home: string; cwd: string; token?: string; args?: string[]; cli?: string };
