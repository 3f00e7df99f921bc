import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { append, lines, newSource, question, quiet, userLine } from "./transcript-index.fixture.ts";

const open = async () => {
  const index = openTranscriptIndex({ path: join(await temporaryDirectory(), "t.db"), log: quiet });
  onTestFinished(() => index.close());
  return index;
};

const list = { project: "", limit: 100, offset: 0, updatedSince: 0 };
const plans = { project: "", codename: "", limit: 10, offset: 0, agentPlans: false };
const prompts = { query: "", project: "", sessionId: "", limit: 10, offset: 0, since: null };

test("memory files are found by their directory and name, with the project's real path", async () => {
  const index = await open();
  await append(index, newSource("session", "/h/projects/-home-ana-app/s.jsonl"), lines(userLine("Hi")));
  const source = await append(
    index,
    newSource("memory", "/h/projects/-home-ana-app/memory/MEMORY.md"),
    "# One",
  );
  await append(index, { ...source, generation: 1, collected: 0 }, "# Two, größer");
  expect(index.memoryFiles("ana/app")).toMatchObject([
    { filename: "MEMORY.md", project_path: "/home/ana/app", file_size_bytes: 15 },
  ]);
  expect(index.memoryFiles("elsewhere")).toEqual([]);
  expect(index.memoryFile("-home-ana-app", "MEMORY.md")?.content).toBe("# Two, größer");
  expect(index.memoryFile("-home-ana-app", "../MEMORY.md")).toBeNull();
});

test("plans belong to the sessions that name them on any line", async () => {
  const index = await open();
  const source = await append(index, newSource("session", "/h/projects/p/s.jsonl"), lines(userLine("Hi")));
  await append(index, newSource("plan", "/h/plans/calm-fox.md", { modified: 2 }), "# Plan");
  await append(index, newSource("plan", "/h/plans/calm-fox-agent-a1b2.md", { modified: 3 }), "# Part");
  await append(index, newSource("plan", "/h/plans/other.md", { modified: 1 }), "");
  expect(index.plan("calm-fox")?.session_ids).toEqual([]);
  await append(index, source, lines(userLine("Plan it", { slug: "calm-fox" })));
  expect(index.session("s")?.codename).toBe("calm-fox");
  expect(index.plan("calm-fox")).toMatchObject({
    content: "# Plan",
    session_ids: ["s"],
    project_path: "/home/ana/app",
    is_agent_plan: false,
  });
  expect(index.plans(plans)).toMatchObject({
    total: 2,
    items: [{ codename: "calm-fox" }, { codename: "other" }],
  });
  expect(index.plans({ ...plans, project: "ana" }).items).toMatchObject([{ codename: "calm-fox" }]);
  expect(index.plans({ ...plans, agentPlans: true, codename: "fox", limit: 1 })).toMatchObject({
    total: 2,
    items: [
      {
        codename: "calm-fox-agent-a1b2",
        is_agent_plan: true,
        parent_codename: "calm-fox",
        session_ids: ["s"],
      },
    ],
  });
  expect(index.agentPlans("calm-fox")).toMatchObject([{ content: "# Part" }]);
  expect(index.plan("other")?.content).toBe("");
  expect(index.plan("none")).toBeNull();
});

test("the prompt history is newest first, by project, session, text and time", async () => {
  const index = await open();
  const at = (minute: number) => Date.parse(`2026-03-02T09:0${minute}:00Z`);
  await append(
    index,
    newSource("history", "/h/history.jsonl"),
    lines(
      { display: "First 100%", timestamp: at(1), project: "/home/ana/app", sessionId: "s" },
      { display: "Second", timestamp: at(2), projectPath: "/srv/zoo", sessionId: "t" },
      "{broken",
      { display: 1 },
      { display: "third", timestamp: at(3), project: "/home/ana/app", sessionId: "t" },
    ),
  );
  const shown = (filter: object) =>
    index.history({ ...prompts, ...filter }).items.map(({ display }) => display);
  const data = "iVBORw0KGgo".padEnd(400, "A");
  const wrapped = `${"iVBORw0KGgo".padEnd(76, "A")}\n`.repeat(5);
  await append(
    index,
    newSource("history", "/other/history.jsonl"),
    lines({ display: `See ${data} and ${wrapped}it is` }, { display: data }),
  );
  expect(shown({ query: "iVBORw0KGgo" })).toEqual([]);
  expect(shown({ query: "See" })).toEqual(["See  and it is"]);
  await index.remove([newSource("history", "/other/history.jsonl").id]);
  expect(shown({})).toEqual(["third", "Second", "First 100%"]);
  expect(shown({ query: "FIRST" })).toEqual(["First 100%"]);
  expect(shown({ query: "100_" })).toEqual([]);
  expect(shown({ project: "zoo" })).toEqual(["Second"]);
  expect(shown({ sessionId: "t", offset: 1 })).toEqual(["Second"]);
  expect(shown({ since: at(2) })).toEqual(["third", "Second"]);
  expect(index.history({ ...prompts, limit: 1 })).toMatchObject({
    total: 3,
    items: [{ timestamp: "2026-03-02T09:03:00.000Z" }],
  });
});

test.each(["before", "after"])(
  "origins that come %s the session tell its job and hide what the service itself ran",
  async (when) => {
    const index = await open();
    const origins = () =>
      append(
        index,
        newSource("origins", "/h/origins.jsonl"),
        lines(
          { session_id: "job", kind: "chat", job_id: null, at: "2026-03-01T00:00:00Z" },
          {
            session_id: "job",
            kind: "job",
            job_id: "j1",
            repo_url: "git@h:acme/app",
            at: "2026-03-02T00:00:00Z",
          },
          { session_id: "own", kind: "service", job_id: null, at: "2026-03-02T00:00:00Z" },
          { session_id: "own-too", kind: "nonsense", job_id: null, at: "2026-03-02T00:00:00Z" },
        ),
      );
    if (when === "before") await origins();
    for (const id of ["job", "own", "plain"])
      await append(index, newSource("session", `/h/projects/p/${id}.jsonl`), lines(userLine(`wombat ${id}`)));
    await append(
      index,
      newSource("history", "/h/history.jsonl"),
      lines(
        { display: "wombat", sessionId: "own" },
        { display: "x", sessionId: "job", project: "/worktree" },
      ),
    );
    const written =
      when === "after"
        ? await origins()
        : [...(await index.sources()).values()].find(({ kind }) => kind === "origins");
    const ids = () =>
      index
        .listSessions(list)
        .items.map(({ session_id }) => session_id)
        .toSorted();
    expect(ids()).toEqual(["job", "plain"]);
    expect(index.listSessions(list).total).toBe(2);
    expect(index.search(question("wombat")).total).toBe(2);
    expect(index.history(prompts)).toMatchObject({ total: 1, items: [{ project: "git@h:acme/app" }] });
    expect(index.session("job")).toMatchObject({
      kind: "job",
      job_id: "j1",
      project_path: "git@h:acme/app",
      cwd: "/home/ana/app",
    });
    expect(index.listSessions({ ...list, project: "acme/app" }).total).toBe(1);
    expect(index.search(question("wombat", { project: "acme/app" })).matches).toMatchObject([
      { session_id: "job", project_path: "git@h:acme/app" },
    ]);
    expect(index.session("own")?.kind).toBe("service");
    await index.remove([written?.id ?? ""]);
    expect(ids()).toEqual(["job", "own", "plain"]);
  },
);

test("sessions are listed by their last change, by project and time", async () => {
  const index = await open();
  for (const [id, timestamp, cwd] of [
    ["a", "2026-03-01T00:00:00Z", "/x/one"],
    ["b", "2026-03-03T00:00:00Z", "/x/two"],
    ["c", "2026-03-02T00:00:00Z", "/x/one"],
  ] as const)
    await append(
      index,
      newSource("session", `/h/projects/p/${id}.jsonl`),
      lines(userLine("Hi", { timestamp, cwd })),
    );
  const ids = (filter: object) =>
    index.listSessions({ ...list, ...filter }).items.map(({ session_id }) => session_id);
  expect(ids({})).toEqual(["b", "c", "a"]);
  expect(ids({ offset: 1, limit: 1 })).toEqual(["c"]);
  expect(ids({ project: "one" })).toEqual(["c", "a"]);
  expect(ids({ project: "_ne" })).toEqual([]);
  expect(ids({ updatedSince: Date.parse("2026-03-02T00:00:00Z") })).toEqual(["b", "c"]);
  expect(index.listSessions({ ...list, offset: 9 })).toEqual({ total: 3, items: [] });
});
