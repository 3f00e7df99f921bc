import { writeFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Row, Scene } from "./scene.ts";

const identity = { name: "TOKEN", repo: "github.com/acme/*", phase: "setup" } as const;
const asked = { ...identity, value: "canary-0123456789" };

export const secretRows = (scene: () => Scene): Row[] => {
  const stored = async () => await scene().roomy.client.set_secret(asked);
  const keyFile = (): string => join(scene().roomy.home, ".service/jobs/secrets.key");
  const withoutStore = (input: Record<string, string>): Pick<Row, "question" | "after"> => ({
    question: async () => {
      await scene().loseStore("jobs/secrets");
      return { input };
    },
    after: () => scene().findStore("jobs/secrets"),
  });
  return [
    {
      operation: "list_secrets",
      outcome: "success",
      question: async () => {
        await stored();
        return { input: {} };
      },
    },
    {
      operation: "list_secrets",
      outcome: "store_unavailable",
      ...withoutStore({}),
    },
    {
      operation: "set_secret",
      outcome: "success",
      question: () => ({ input: asked }),
      varies: ["created_at"],
    },
    {
      operation: "set_secret",
      outcome: "invalid_request",
      question: () => ({ input: { ...asked, value: "short" } }),
    },
    {
      operation: "set_secret",
      outcome: "secrets_unavailable",
      question: async () => {
        await writeFile(keyFile(), "no key");
        return { input: asked };
      },
      // Another one is made.
      after: async () => await rm(keyFile()),
    },
    {
      operation: "set_secret",
      outcome: "store_unavailable",
      ...withoutStore(asked),
    },
    {
      operation: "remove_secret",
      outcome: "store_unavailable",
      ...withoutStore(identity),
    },
    {
      operation: "remove_secret",
      outcome: "success",
      question: async () => {
        await stored();
        return { input: identity };
      },
      anew: true,
      varies: ["created_at"],
    },
    {
      operation: "remove_secret",
      outcome: "secret_not_found",
      question: () => ({ input: { ...identity, name: "NONE" } }),
    },
    {
      operation: "remove_secret",
      outcome: "invalid_request",
      question: () => ({ input: { ...identity, name: "1A" } }),
    },
    {
      operation: "run_task",
      outcome: "sandbox_required",
      question: async () => {
        const { roomy, remote } = scene();
        const ofAgent = { name: "FOR_AGENT", repo: remote, phase: "agent" as const };
        await roomy.client.set_secret({ ...ofAgent, value: asked.value, hosts: ["api.example"] });
        return { input: { task: "needs it", repo_url: remote } };
      },
      after: async () => {
        const { roomy, remote: repo } = scene();
        await roomy.client.remove_secret({ name: "FOR_AGENT", repo, phase: "agent" });
      },
    },
  ];
};
