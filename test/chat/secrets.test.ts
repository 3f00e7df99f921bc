import { expect, test } from "vitest";
import { createConversation } from "../../web/src/job/events.ts";
import { startService } from "../service.ts";
import { allChunks, contentOf, post, saying } from "./asking.ts";

const canary = ["ghp", "canaryOfTheChatTests42"].join("_");

/** The agent says it in pieces of three characters, in all the ways it has. */
const telling = `scenario: chat ${JSON.stringify({
  deltaLength: 3,
  steps: [
    { thinking: `I found ${canary} there` },
    { tool: { name: "Bash", input: { command: `echo ${canary}` }, result: `${canary}\n` } },
    { text: `It is ${canary}, is it not?` },
  ],
})}`;

test("a configured secret that the agent comes upon is shown to nobody, in whatever pieces it comes", async () => {
  const service = await startService({ env: { AGENT_MODE: "true", GIT_HOST_TOKEN: canary } });
  const live = { metadata: { live_text: "true" } };
  const shown = [
    await post(service, saying(telling, { stream: true })).then(allChunks),
    await post(service, saying(telling, { stream: true, ...live })).then(allChunks),
    await post(service, saying(telling)).then((response) => response.json()),
    await service.client.agent_completions({ uuid: "canary", message: telling }),
    await fetch(`${service.url}/completions/canary/events`).then((response) => response.text()),
  ].map((answer) => JSON.stringify(answer));
  for (const answer of shown) expect(answer).toContain("***");
  for (const text of [...shown, ...shown.map(joined), service.output.stdout, service.output.stderr])
    expect(text).not.toContain("canaryOfTheChatTests");
  const chunks = await post(service, saying(telling, { stream: true, ...live })).then(allChunks);
  expect(contentOf(chunks)).toContain("It is ***, is it not?");
});

test.each([
  ["the model's credential", { MODEL_API_AUTH_TOKEN: canary }],
  ["a variable of SERVICE_AGENT_ENV", { SERVICE_AGENT_ENV: "OUR_TOKEN_1", OUR_TOKEN_1: canary }],
])("%s is masked once and the text around it is not doubled, in a chat and in a job", async (_, env) => {
  const service = await startService({ env: { AGENT_MODE: "true", ...env } });
  for (const live_text of ["true", "false"]) {
    const answer = await post(service, saying(telling, { stream: true, metadata: { live_text } }));
    const content = contentOf(await allChunks(answer));
    expect(content).not.toContain("canaryOfTheChatTests");
    expect(content.split("It is ***, is it not?")).toHaveLength(2);
    expect(content).toMatch(/It is \*\*\*, is it not\?$/);
  }
  const { job } = await service.client.run_task({ task: telling, wait: true });
  const conversation = createConversation();
  for await (const event of service.client.eventsSoFar(job.id)) {
    expect(event).not.toHaveProperty("dropped_block");
    conversation.add(event);
  }
  expect(JSON.stringify([job.output, conversation])).not.toContain("canaryOfTheChatTests");
  const said = conversation.entries.flatMap((entry) =>
    entry.type === "text" || entry.type === "thinking" ? [entry.text] : [],
  );
  expect(said).toEqual(["I found *** there", "It is ***, is it not?"]);
});

/** As a reader joins the pieces. */
const joined = (json: string): string =>
  [...json.matchAll(/"(?:content|reasoning_content)":"([^"]*)"/g)].map(([, text]) => text).join("");
