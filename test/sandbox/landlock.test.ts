import { expect, test } from "vitest";
import { attacks } from "./attacks.ts";
import { play, stagedByRoot, users, whoIs } from "./stage.ts";

/** What Landlock does not stop. SECURITY.md says so. */
const gaps = {
  always: [
    "list another job's directory",
    "change the mode of another job's file",
    "change the times of another job's file",
    "read the arguments of a process",
    "read shared memory",
    "make a user namespace",
    "read a device that lies in the worktree",
    "read lists of the kernel's memory",
  ],
  /** Of these, where a container's filter stands around the service. */
  notInContainer: ["make a user namespace"],
  /** Where no mount namespace can be had. */
  onlyInContainer: ["read a file in shared memory"],
};

test.each(
  users.flatMap((user) => [
    { user, title: whoIs(user), hasPublicHosts: false, inContainer: false },
    { user, title: `${whoIs(user)} in a container`, hasPublicHosts: false, inContainer: true },
    { user, title: `${whoIs(user)} with every public host`, hasPublicHosts: true, inContainer: false },
  ]),
)("under Landlock $title can do what is named here, and nothing else", async ({ title: _title, ...who }) => {
  const scene = await play({ ...who, sandbox: "landlock" });
  const expected = who.inContainer
    ? [...gaps.always.filter((name) => !gaps.notInContainer.includes(name)), ...gaps.onlyInContainer]
    : gaps.always;
  const attacker = { isRoot: who.user === "root", stagedByRoot };
  const open = attacks.filter(({ name, isOpen }) => expected.includes(name) && isOpen?.(attacker));
  expect(scene).toEqual({ mode: "landlock", succeeded: open.map(({ name }) => name) });
});
