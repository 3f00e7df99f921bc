import { expect, test } from "vitest";
import { message, text, toolUse } from "../../fake-model/answer.ts";
import { startFakeModel } from "../../fake-model/fake-model.ts";
import { makeRemote } from "../../remote.ts";
import { startService } from "../../service.ts";
import { newUser } from "./claude.ts";
import { at, documentedLines } from "./documented-lines.ts";

const request = "Have the service write the file, and tell me how it went.";

/** A model that hands the task to the service, waits for it, and reads the job. */
const delegating =
  (repository: string) =>
  (conversation: { prompt: string; tools: string[]; results: { text: string }[] }) => {
    const { prompt, tools, results } = conversation;
    if (!prompt.includes(request) || tools.length === 0) return null;
    const job_id = /"id":\s*"([\da-f-]{36})"/.exec(results[0]?.text ?? "")?.[1] ?? "";
    const steps = [
      toolUse("mcp__svc__run_task", { task: "Write the file", repo_url: repository }),
      toolUse("mcp__svc__wait_for_job", { job_id }),
      toolUse("mcp__svc__get_job", { job_id }),
    ];
    return message([steps[results.length] ?? text(`The service says: ${results.at(-1)?.text}`)]);
  };

const lines = await documentedLines();
const ways = lines.filter((line) => line.includes("--transport http") || !line.includes("--transport"));

test.each(ways)(
  "after `%s` Claude Code has the service run a task, waits for it and reads the result",
  async (line) => {
    await using model = await startFakeModel();
    const remote = await makeRemote();
    using _ = model.script(delegating(remote.path));
    const service = await startService({ env: { SERVICE_API_KEYS: "key-of-the-test" } });
    const user = await newUser({
      SVC_KEY: "key-of-the-test",
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_AUTH_TOKEN: "token-of-the-test",
      CLAUDE_CODE_MAX_RETRIES: "1",
    });
    expect(await user.type(at(service.url, line))).toMatchObject({ code: 0 });
    const { code, stdout, stderr } = await user.claude(
      "-p",
      request,
      "--output-format",
      "json",
      "--allowedTools",
      "mcp__svc__run_task",
      "mcp__svc__wait_for_job",
      "mcp__svc__get_job",
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { result, num_turns } = JSON.parse(stdout) as { result: string; num_turns: number };
    expect(num_turns).toBe(4);
    expect(JSON.parse(result.replace("The service says: ", ""))).toMatchObject({
      success: true,
      job: { status: "succeeded", task: "Write the file", repo_url: remote.path },
    });
    expect((await remote.branches()).filter((branch) => branch.startsWith("service/"))).toHaveLength(1);
  },
);
