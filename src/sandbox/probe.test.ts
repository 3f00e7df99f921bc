import { expect, test } from "vitest";
import { explain, type Failure } from "./probe.ts";

const plain: Failure = {
  stderr: "",
  appArmorRestricts: null,
  unprivilegedAllowed: "1",
  maxUserNamespaces: "100",
  isContainer: false,
  isRoot: false,
};

const refused =
  "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.";

const maskedProc = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted";

test.each<[Partial<Failure>, RegExp]>([
  [{ stderr: null }, /not installed: apt-get install bubblewrap/],
  [{ stderr: "bwrap: Unknown option --disable-userns" }, /too old/],
  [{ stderr: maskedProc, isContainer: true }, /the container masks \/proc/],
  [{ stderr: maskedProc }, /the service's unit forbids it: leave out ProtectKernelTunables/],
  [{ stderr: "bwrap: Can't open source /usr: Function not implemented" }, /RestrictSUIDSGID/],
  [
    { stderr: "bwrap: cannot open /proc/sys/user/max_user_namespaces: Read-only file system" },
    /ProtectKernelTunables/,
  ],
  [{ stderr: refused, appArmorRestricts: "1" }, /deploy\/apparmor\/svc-bwrap/],
  [{ stderr: refused, unprivilegedAllowed: "0" }, /unprivileged_userns_clone=1/],
  [
    { stderr: "bwrap: Creating new namespace failed: No space left on device", maxUserNamespaces: "0" },
    /max_user_namespaces/,
  ],
  [{ stderr: refused, isContainer: true }, /seccomp=unconfined/],
  [
    {
      stderr: "bwrap: Creating new namespace failed: Operation not permitted",
      isContainer: true,
      isRoot: true,
      appArmorRestricts: "1",
    },
    /seccomp=unconfined/,
  ],
  [{ stderr: refused }, /bubblewrap does not start: bwrap: No permissions/],
  [{ stderr: "" }, /it says nothing/],
])("%j: %s", (seen, sentence) => {
  expect(explain({ ...plain, ...seen })).toMatch(sentence);
});
