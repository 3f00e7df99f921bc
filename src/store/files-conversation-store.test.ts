import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  conversationKey,
  conversationStoreSuite,
  conversationTtl,
  sampleConversation,
} from "../../test/ports/conversation-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import { conversationKind, createConversationStore } from "./conversation-store.ts";
import { openFilesRecords } from "./files-records.ts";

const lines: string[] = [];
const log = createLog("info", (line) => (lines.push(line), ""));
const openIn = async (directory: string, clock = { now: new Date("2026-01-01T00:00:01Z") }) =>
  createConversationStore(
    await openFilesRecords(conversationKind(conversationTtl), { directory, now: () => clock.now, log }),
  );

conversationStoreSuite("files", {
  open: async (clock) => {
    const directory = await temporaryDirectory();
    return { store: await openIn(directory, clock), reopen: () => openIn(directory, clock) };
  },
});

test("torn and foreign files are skipped with a warning and not deleted, temporary files of a crashed write are", async () => {
  const directory = await temporaryDirectory();
  const good = conversationKey("good");
  const store = await openIn(directory);
  await store.put(good, sampleConversation());
  const torn = conversationKey("torn");
  await writeFile(join(directory, `${torn}.json`), JSON.stringify(sampleConversation()).slice(0, 50));
  await writeFile(join(directory, "notes.json"), JSON.stringify(sampleConversation()));
  await mkdir(join(directory, `${conversationKey("directory")}.json`));
  await writeFile(join(directory, `.${good}.json.77.1.tmp`), "half");
  lines.length = 0;
  const again = await openIn(directory);
  expect(lines).toHaveLength(3);
  expect(await again.get(torn)).toBeNull();
  expect(await again.get(good)).toEqual(sampleConversation());
  await again.expire(new Date("2027-01-01T00:00:00Z"));
  expect((await readdir(directory)).toSorted()).toEqual(
    [`${torn}.json`, "notes.json", `${conversationKey("directory")}.json`].toSorted(),
  );
});

test("a file that is damaged while the service runs counts as missing", async () => {
  const directory = await temporaryDirectory();
  const store = await openIn(directory);
  const key = conversationKey("x");
  await store.put(key, sampleConversation());
  await writeFile(join(directory, `${key}.json`), "garbage");
  lines.length = 0;
  for (let time = 0; time < 2; time += 1) expect(await store.get(key)).toBeNull();
  expect(lines).toHaveLength(1);
  await store.put(key, sampleConversation());
  expect(await store.get(key)).toEqual(sampleConversation());
});

test("a missing directory makes writes fail with store_unavailable", async () => {
  const directory = join(await temporaryDirectory(), "conversations");
  const store = await openIn(directory);
  await rename(directory, `${directory}-away`);
  const put = () => store.put(conversationKey("x"), sampleConversation());
  await expect(put()).rejects.toMatchObject({ code: "store_unavailable" });
  await rename(`${directory}-away`, directory);
  await put();
});
