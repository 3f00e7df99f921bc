import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { Failure, statusOf } from "../src/contract/errors.ts";
import type { Operation } from "../src/contract/operation.ts";
import { operations, toolNames, type Operations } from "../src/contract/operations.ts";
import { doors } from "./doors.ts";
import { completionRows } from "./same-answer/completion-rows.ts";
import { instanceRows, jobRows } from "./same-answer/job-rows.ts";
import { openScene, type Row, type Scene } from "./same-answer/scene.ts";
import { secretRows } from "./same-answer/secret-rows.ts";
import { worktreeRows } from "./same-answer/worktree-rows.ts";

/*
 * Every operation of the registry, its success and each error it declares, asked through every door and compared as
 * JSON. An operation or an error code without a row fails the last test.
 */

let scene: Scene;
beforeAll(async () => void (scene = await openScene()));
afterAll(() => scene.close());

const rows = [
  ...jobRows(() => scene),
  ...worktreeRows(() => scene),
  ...secretRows(() => scene),
  ...instanceRows(() => scene),
  ...completionRows(() => scene),
];

describe("every door gives the same answer", () => {
  test.each(rows)(
    "$operation: $outcome",
    async ({ operation, outcome, question, anew, after, varies = [], service = () => scene.roomy }) => {
      const once = await question();
      const answers: { door: string; status: number; body: unknown }[] = [];
      try {
        for (const { name, ask } of doors) {
          const asked = anew === true ? await question() : once;
          const answer = await ask(service(), { operation, ...asked });
          if (answer !== null) answers.push({ door: name, status: expectedStatus(outcome), ...answer });
        }
      } finally {
        await after?.();
      }
      const [first, ...others] = answers.map((answer) => ({
        ...answer,
        body: without(answer.body, varies),
      }));
      expect(first?.status).toBe(expectedStatus(outcome));
      expect(answers[0]?.body).toSatisfy((body) => shapeOf(operation, outcome).safeParse(body).success);
      expect(answers.map(({ door }) => door)).toEqual(expect.arrayContaining(doorsFor(operation, outcome)));
      for (const other of others) expect(other).toEqual({ ...first, door: other.door });
    },
  );

  test("and there is a row for every operation and every error it declares", () => {
    const declared = Object.entries<Operation>(operations).flatMap(([name, { errors }]) =>
      ["success", ...errors].map((outcome) => `${name} ${outcome}`),
    );
    expect(rows.map(({ operation, outcome }) => `${operation} ${outcome}`)).toEqual(
      expect.arrayContaining(declared),
    );
  });
});

/** Those that can ask everything; a service that shuts down takes no new session. */
const doorsFor = (operation: keyof Operations, outcome: Row["outcome"]): string[] =>
  doors
    .map(({ name }) => name)
    .filter((name) => name === "REST" || name === "client" || name.startsWith("MCP"))
    .filter((name) => toolNames.includes(operation) || !name.startsWith("MCP"))
    .filter((name) => outcome !== "draining" || !name.includes("/sse"));

const shapeOf = (operation: keyof Operations, outcome: Row["outcome"]): z.ZodType =>
  outcome === "success"
    ? operations[operation].output
    : Failure.extend({ code: z.literal(outcome) }).strict();

const expectedStatus = (outcome: Row["outcome"]): number => (outcome === "success" ? 200 : statusOf[outcome]);

/** `body` without the values of these fields, wherever they are in it. */
const without = (body: unknown, fields: readonly string[]): unknown =>
  JSON.parse(JSON.stringify(body), (name, value: unknown) => (fields.includes(name) ? "differs" : value));
