import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterFile } from "../../cleanup.ts";
import { startFakeModel, type FakeModel } from "../../fake-model/fake-model.ts";
import { startService, type Service } from "../../service.ts";
import { temporaryDirectory } from "../../temporary.ts";
import { until } from "../../until.ts";
import { clientScript, fileText } from "./scripted.ts";

export const key = "key-of-the-test";

export type Scene = {
  service: Service;
  model: FakeModel;
  /** Of the clients. */
  baseURL: string;
  /** The file that the model reads when it does the work. */
  file: string;
  /** The variables the service was started with, to start it again. */
  env: Record<string, string>;
};

/** The real service with the real agent CLI; only the model is scripted. */
export const startScene = async (more: Record<string, string> = {}): Promise<Scene> => {
  const model = await startFakeModel({ token: "model-token" });
  afterFile(model.close);
  const file = join(await temporaryDirectory(), "file.txt");
  await writeFile(file, fileText);
  model.script(clientScript(file));
  const env = {
    AGENT_MODE: "true",
    SERVICE_AGENT_SANDBOX_READ: dirname(file),
    // Each is a start of the real CLI; what is started ahead is tested with the fake agent.
    AGENT_MODE_WARM_PROCESSES: "0",
    SERVICE_API_KEYS: key,
    SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../../node_modules/.bin/claude"),
    MODEL_API_BASE_URL: model.url,
    MODEL_API_AUTH_TOKEN: "model-token",
    ...more,
  };
  const service = await startService({ env });
  return { service, model, baseURL: `${service.url}/v1`, file, env };
};

/** Resolves when no turn is under way. */
export const untilIdle = ({ service }: Pick<Scene, "service">): Promise<unknown> =>
  until(async () => (await turnsOf(service)) === 0, { what: "the turns to end" });

const turnsOf = async ({ url }: Pick<Service, "url">): Promise<number> => {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } });
  return Number(/^svc_chat_turns (\d+)/m.exec(await answer.text())?.[1]);
};

/** What the model was asked, as text: the newest of its requests for an answer. */
export const lastAsked = ({ requests }: Pick<FakeModel, "requests">): string =>
  JSON.stringify(askedOf({ requests }).at(-1)?.body ?? null);

/** Requests for an answer. */
export const askedOf = ({ requests }: Pick<FakeModel, "requests">) =>
  requests.filter(({ method, url }) => method === "POST" && /^\/v1\/messages(\?|$)/.test(url));
