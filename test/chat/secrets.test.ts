import { expect, test } from "vitest";
import { createConversation } from "../../web/src/job/events.ts";
import { startService } from "../service.ts";
import { allChunks, contentOf, post, saying } from "./asking.ts";

const canaryOf = (name: string): string => ["ghp", `canaryOfTheChatTests${name}`].join("_");
const canary = canaryOf("One");

/** The agent says it in pieces of three characters, in all the ways it has. */
const telling = (secret: string): string =>
  `scenario: chat ${JSON.stringify({
    deltaLength: 3,
    steps: [
      { thinking: `I found ${secret} there` },
      { tool: { name: "Bash", input: { command: `echo ${secret}` }, result: `${secret}\n` } },
      { text: `It is ${secret}, is it not?` },
    ],
  })}`;

const service = await startService({
  env: {
    AGENT_MODE: "true",
    GIT_HOST_TOKEN: canary,
    MODEL_API_AUTH_TOKEN: canaryOf("Two"),
    SERVICE_AGENT_ENV: "OUR_TOKEN_1",
    OUR_TOKEN_1: canaryOf("Three"),
  },
});

test("a configured secret that the agent comes upon is shown to nobody, in whatever pieces it comes", async () => {
  const live = { metadata: { live_text: "true" } };
  const message = telling(canary);
  const shown = [
    await post(service, saying(message, { stream: true })).then(allChunks),
    await post(service, saying(message, { stream: true, ...live })).then(allChunks),
    await post(service, saying(message)).then((response) => response.json()),
    await service.client.agent_completions({ uuid: "canary", message }),
    await fetch(`${service.url}/completions/canary/events`).then((response) => response.text()),
  ].map((answer) => JSON.stringify(answer));
  for (const answer of shown) expect(answer).toContain("***");
  for (const text of [...shown, ...shown.map(joined), service.output.stdout, service.output.stderr])
    expect(text).not.toContain("canaryOfTheChatTests");
});

test.each([
  ["the token of the git host", canary],
  ["the model's credential", canaryOf("Two")],
  ["a variable of SERVICE_AGENT_ENV", canaryOf("Three")],
])("%s is masked once and the text around it is not doubled, in a chat and in a job", async (_, secret) => {
  for (const live_text of ["true", "false"]) {
    const answer = await post(service, saying(telling(secret), { stream: true, metadata: { live_text } }));
    const content = contentOf(await allChunks(answer));
    expect(content).not.toContain("canaryOfTheChatTests");
    expect(content.split("It is ***, is it not?")).toHaveLength(2);
    expect(content).toMatch(/It is \*\*\*, is it not\?$/);
  }
  const { job } = await service.client.run_task({ task: telling(secret), wait: true });
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
