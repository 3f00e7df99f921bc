import { expect, test } from "vitest";
import type { Source } from "./corpus.ts";
import { open, session } from "./open-index.fixture.ts";
import { append, assistantLine, lines, newSource, question, userLine } from "./transcript-index.fixture.ts";

/** Three questions with answers. */
const talk = () => [0, 1, 2].flatMap((n) => [userLine(`question ${n} wombat`), assistantLine(`answer ${n}`)]);

/** All orders of some values. */
const ordersOf = <Value>(values: readonly Value[]): Value[][] =>
  values.length < 2
    ? [[...values]]
    : values.flatMap((value) =>
        ordersOf(values.filter((other) => other !== value)).map((rest) => [value, ...rest]),
      );

test("a parent and its fork that were copied to another place count once, in any order, whichever files stay", async () => {
  const first = talk();
  const of = (sessionId: string) => first.map((line) => ({ ...line, sessionId }));
  const parent = lines(...of("parent"));
  const fork = lines(...of("fork"), userLine("a badger of its own", { sessionId: "fork" }));
  const at = (home: string, name: string, created: number) =>
    newSource("session", `/${home}/projects/p/${name}.jsonl`, { created });
  // The copy of the fork was made first.
  const files = [at("h", "parent", 1), at("h", "fork", 2), at("copy", "parent", 4), at("copy", "fork", 3)];
  for (const order of ordersOf(files)) {
    const index = await open();
    const stored: Source[] = [];
    const counts = () => [
      ...["parent", "fork"].map((id) => index.session(id)?.num_user_turns),
      index.search(question("wombat")).matches.map((each) => [each.session_id, each.num_hits]),
    ];
    for (const source of order)
      stored.push(await append(index, source, source.name === "fork" ? fork : parent));
    const old = stored.filter(({ path }) => path.startsWith("/h/"));
    expect(counts()).toEqual([3, 1, [["parent", 3]]]);
    for (const source of old) await index.put({ ...source, deleted: true });
    expect(counts()).toEqual([3, 1, [["parent", 3]]]);
    await index.remove(old.map(({ id }) => id));
    // Nothing tells any more which of them was first.
    expect(counts()).toEqual([0, 4, [["fork", 3]]]);
  }
});

test("what a copy lacks that counts in the place of a longer one counts in the fork", async () => {
  const index = await open();
  const first = talk();
  const older = await append(index, session("parent", { created: 1 }), lines(...first));
  await append(index, session("fork", { created: 2 }), lines(...first, userLine("own")));
  const path = "/copy/projects/p/parent.jsonl";
  await append(index, newSource("session", path, { created: 3 }), lines(...first.slice(0, 4)));
  const turns = () => ["parent", "fork"].map((id) => index.session(id)?.num_user_turns);
  expect(turns()).toEqual([3, 1]);
  await index.put({ ...older, deleted: true });
  expect(turns()).toEqual([2, 2]);
  expect(index.search(question("question 2")).matches.map(({ session_id }) => session_id)).toEqual(["fork"]);
  await index.put({ ...older, deleted: false });
  expect(turns()).toEqual([3, 1]);
});

test("a line more costs no more where much was said before", async () => {
  const index = await open();
  /** Processor time of 25 further lines, each on its own, ms: the least of eight rounds, of which one may hold the database's tidying up. */
  const costAfter = async (name: string, pairs: number) => {
    const said = Array.from({ length: pairs }, (_, n) => [userLine(`${n}`), assistantLine("so")]).flat();
    let source = await append(index, session(name), lines(...said));
    const costs: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      const begin = process.cpuUsage();
      for (let n = 0; n < 25; n += 1) source = await append(index, source, lines(assistantLine("so")));
      const { user, system } = process.cpuUsage(begin);
      costs.push((user + system) / 1000);
    }
    expect(index.session(name)).toMatchObject({ num_user_turns: pairs, num_assistant_turns: pairs + 200 });
    return Math.min(...costs);
  };
  await costAfter("first", 1);
  const little = await costAfter("small", 1);
  expect(await costAfter("large", 5000)).toBeLessThan(2 * little + 25);
});

test("copies that are written in turn do not take each other's place", async () => {
  const index = await open();
  let one = session("s");
  let two = newSource("session", "/a/projects/p/s.jsonl");
  const paths = new Set<string | undefined>();
  for (const line of talk()) {
    one = await append(index, one, lines(line));
    paths.add(index.session("s")?.transcript_path);
    two = await append(index, two, lines(line));
    paths.add(index.session("s")?.transcript_path);
  }
  expect([...paths]).toEqual([one.path]);
  await append(index, two, lines(userLine("only here")));
  expect(index.session("s")).toMatchObject({ transcript_path: two.path, num_user_turns: 4 });
});
