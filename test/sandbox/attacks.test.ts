import { describe, expect, test } from "vitest";
import { attacks } from "./attacks.ts";
import { play, stagedByRoot, users, whoIs, type Scene } from "./stage.ts";

const succeededIn = (scene: Scene): string[] => {
  if ("refused" in scene) throw new Error(scene.refused);
  return scene.succeeded;
};

describe.each(users)("as %s", async (user) => {
  const [outside, inside] = await Promise.all(
    (["off", "bwrap"] as const).map((sandbox) => play({ user, sandbox }).then(succeededIn)),
  );

  test.each(attacks)(`${whoIs(user)} cannot in the sandbox: $name`, ({ name, isOpen }) => {
    expect(inside).not.toContain(name);
    const isExpected = isOpen?.({ isRoot: user === "root", stagedByRoot }) ?? false;
    expect(outside?.includes(name), "without a sandbox").toBe(isExpected);
  });
});

test.each(users)(
  "where a container refuses namespaces (as %s), bwrap says so and what to do",
  async (user) => {
    expect(await play({ user, sandbox: "bwrap", inContainer: true })).toEqual({
      refused: expect.stringMatching(
        /^SERVICE_AGENT_SANDBOX=bwrap: the container refuses namespaces: start it with --security-opt/,
      ),
    });
  },
);

test.each(users)("`*` gives %s nothing of this machine", async (user) => {
  expect(succeededIn(await play({ user, sandbox: "bwrap", hasPublicHosts: true }))).toEqual([]);
});
