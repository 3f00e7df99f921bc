import { lstat, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openWorktree } from "../../../src/repos/open-worktree.ts";
import { runGit, withRealRoots, type GitContext } from "../../../src/repos/git-context.ts";
import { never } from "../../../src/repos/plain-git.fixture.ts";
import { addTo, fetchInto } from "../../../src/repos/repos.fixture.ts";
import { salvageRef } from "../../../src/repos/repos.ts";
import { createTokens } from "../../../src/repos/tokens.ts";
import { walls, type WallMode } from "../../../src/repos/wall.fixture.ts";
import { fateOf, isGitlink, shownEvidence, treeOf, type Evidence, type Saved } from "./evidence.ts";
import { findEscaped, findLeftBehind, watchOutside } from "./outside.ts";
import { rawGit, textIn, type Place, type Stock } from "./place.ts";
import { makeHooks } from "./programs.ts";
import { gitTimeoutOf, plants, spoiltIn, type Look, type Round } from "./round.ts";
import { againstAgent } from "./race.ts";
import { createWitness, type Witness } from "./witness.ts";
import { works } from "./works.ts";

export type Played = {
  faults: string[];
  answers: Record<string, number>;
  /** What the service said in the first of each kind. */
  refusals: Record<string, string>;
  slowest: number;
  /** Pieces of work by what has become of them. */
  fates: Record<"saved" | "kept", number>;
  /** Works and plants that earlier ones made impossible. */
  inVain: string[];
  /** Reasons for which the worktree was kept, without what they are about. */
  kept: string[];
  /** How often programs ran behind the wall. */
  ranInside: number;
};

/** A round while it is played. */
type Game = {
  round: Round;
  mode: WallMode;
  place: Place;
  witness: Witness;
  evidence: Evidence[];
  saved: Saved;
  /** Why the worktree is to be kept, as the last salvage said. */
  kept: string[];
  inVain: string[];
};

/** Does the honest work and then the plants. */
const prepare = async ({ round, place, evidence, inVain }: Game): Promise<void> => {
  const inVainUnless = (kind: string, doing: Promise<unknown> | undefined): Promise<unknown> =>
    Promise.resolve(doing).catch(() => inVain.push(kind));
  for (const { kind, ...own } of round.works)
    await inVainUnless(
      kind,
      works
        .get(kind)
        ?.make(place, own)
        .then((made) => evidence.push(...made)),
    );
  await makeHooks(place);
  for (const { kind, ...own } of round.plants) await inVainUnless(kind, plants.get(kind)?.put(place, own));
  const spoilt = spoiltIn(round);
  const isLeft = (each: Evidence): boolean => {
    if (each.is === "commit") return !spoilt.has("commits");
    if (each.is !== "entry") return true;
    if (each.inIndexOnly === true) return !spoilt.has("index");
    return !(spoilt.has("submodules") && isGitlink(each));
  };
  evidence.splice(0, Infinity, ...evidence.filter(isLeft));
  await writeFile(join(place.trap.directory, "armed"), "");
  const isIndexSpoilt = round.number % 4 === 0;
  if (round.obeys === "spoils")
    await writeFile(join(place.trap.directory, "spoil"), isIndexSpoilt ? "index\n" : "");
};

const contextOf = ({ settings, worktree: { worktreeId: jobId } }: Place, mode: WallMode): GitContext => ({
  settings: withRealRoots(settings),
  env: { PATH: process.env["PATH"], TZ: "UTC" },
  tokens: createTokens(settings, () => undefined),
  confine: walls[mode],
  programs: Promise.resolve([]),
  checked: new Set(),
  onLost: () => undefined,
  signal: never,
  jobId,
});

/** As the service does not: gives git the repositories in the worktree. */
const obey = async ({ place, witness, mode }: Game): Promise<void> => {
  const { worktree, repositories } = place;
  const context = contextOf(place, mode);
  const opened = await openWorktree(context, worktree).catch(() => null);
  if (opened === null) return;
  const tree = { ...worktree, index: join(opened.agent.dir, "index") };
  for (const name of repositories) await runGit(context, tree, ["add", "--", name]).catch(() => undefined);
  await findLeftBehind(place, witness);
};

const noteTree = async ({ saved, evidence }: Game, gitDir: string, ref: string): Promise<void> => {
  saved.trees.push(await treeOf(gitDir, ref));
  evidence.push({ is: "commit", id: (await rawGit(gitDir, "rev-parse", `${ref}^{commit}`)).trim() });
};

const requests = ({ worktree: { repoUrl, worktreeId } }: Place) =>
  ({ repoUrl, worktreeId, base: null, format: "patch", maxBytes: 1_000_000, signal: never }) as const;

const salvage = async (game: Game): Promise<void> => {
  const { place, witness } = game;
  const { value, error } = await witness.call("salvage", () =>
    place.repos.salvage(place.worktree, "job", never),
  );
  // As after a salvage that failed: its caller keeps the worktree.
  game.kept = value?.kept ?? [`not saved: ${error?.message}`];
  if (value?.ref) await noteTree(game, place.savedDir, value.ref);
};

/** The change as a user sees it has each file. An agent may be at work meanwhile: it is not, where no wall holds it. */
const lookAtDiff = async (game: Game): Promise<void> => {
  const { place, witness, evidence, saved, mode } = game;
  const request = { ...requests(place), head: null };
  if (place.isRacing && mode !== "off")
    return againstAgent(place, mode, async () => {
      for (const format of ["patch", "names", "stat"] as const)
        await witness.call("diff", () => place.repos.diff({ ...request, format }));
    });
  const { value } = await witness.call("diff", () => place.repos.diff(request));
  if (value === null || value.truncated || saved.trees.length > 0) return;
  const shown = new Set(value.files.map(({ path }) => path));
  for (const each of evidence) {
    if (each.is !== "entry" || each.isOld === true) continue;
    const name = Buffer.from(each.path, "latin1").toString();
    const isText = !name.includes("\ufffd");
    if (!isText || shown.has(name)) continue;
    const fate = await fateOf(each, { saved, kept: value.kept, directory: place });
    if (fate === "lost") witness.fault(`diff does not show ${shownEvidence(each)}`);
  }
};

const isWork = (each: Evidence): boolean => each.is !== "entry" || each.isOld !== true;

/** Whether all is pushed; if so, nothing may be anywhere else. */
const askWhetherPushed = async (game: Game): Promise<boolean> => {
  const { place, witness, evidence, saved } = game;
  const { value } = await witness.call("isPushed", () => place.repos.isPushed(place.worktree, never));
  if (value !== true) return false;
  await reach(game);
  for (const each of evidence.filter(isWork)) {
    const fate = await fateOf(each, { saved, kept: [], directory: place });
    if (fate === "lost") witness.fault(`isPushed says that nothing is left, but ${shownEvidence(each)}`);
  }
  return true;
};

/** Follows all refs that hold saved or pushed work. */
const reach = async ({ place: { remote, savedDir }, saved }: Game): Promise<void> => {
  for (const [gitDir, patterns] of [
    [remote, ["--branches"]],
    [savedDir, ["--branches", "--glob=refs/service/*"]],
  ] as const)
    for (const id of (await rawGit(gitDir, "rev-list", ...patterns)).split("\n")) saved.commits.add(id);
};

const lookings: Record<Look, (game: Game) => Promise<unknown>> = {
  diff: lookAtDiff,
  inspect: ({ place, witness }) => witness.call("inspect", () => place.repos.inspect(place.worktree, never)),
  isPushed: askWhetherPushed,
  unsavable: ({ place, witness }) =>
    witness.call("unsavable", () => place.repos.unsavable(place.worktree, never)),
  capture: async ({ place, witness }) => {
    const { repos, worktree, repo } = place;
    const { value: commit } = await witness.call("capture", () => repos.capture(worktree, never));
    if (commit === null) return;
    const source = { worktree, commit };
    await witness.call("addWorktree copy", () => addTo(repos, repo, "copy", { source }));
    await witness.call("removeWorktree copy", () => repos.removeWorktree({ worktreeId: "copy" }, never));
  },
  salvage,
  saveBranch: ({ place, witness }) =>
    witness.call("saveBranch", () => place.repos.saveBranch(place.worktree, never)),
  commitAll: ({ place, witness }) =>
    witness.call("commitAll", () => place.repos.commitAll(place.worktree, "work", never)),
  push: async (game) => {
    const { place, witness } = game;
    const { error } = await witness.call("push", () => place.repos.push(place.worktree, never));
    if (error === null) await noteTree(game, place.remote, `refs/heads/${place.worktree.branch}`);
  },
};

/** As clean-up does: what is not pushed is saved. Each piece of work is then somewhere. */
const judge = async (game: Game): Promise<Played["fates"]> => {
  const { place, witness, evidence, saved } = game;
  game.kept = [];
  if (!(await askWhetherPushed(game))) await salvage(game);
  await reach(game);
  const fates = { saved: 0, kept: 0 };
  for (const each of evidence) {
    const fate = await fateOf(each, { saved, kept: game.kept, directory: place });
    if (fate === "lost") witness.fault(`lost: ${shownEvidence(each)}; kept: ${game.kept.join(", ") || "no"}`);
    else fates[fate] += 1;
  }
  return fates;
};

/** The worktree's next uses: other files, its next agent, and a job that goes on from its branch. */
const goOn = async (game: Game): Promise<void> => {
  const { round, place, witness, saved, kept, evidence } = game;
  const { repos, repo, worktree, remote } = place;
  await witness.call("diff of saved work", () => repos.diff({ ...requests(place), head: salvageRef("job") }));
  const tip = (
    await rawGit(remote, "rev-parse", "--verify", "--quiet", worktree.branch).catch(() => "")
  ).trim();
  const commit = String(worktree.baseSha);
  await witness.call("checkOutCommit", () =>
    repos.checkOutCommit(worktree, { commit, tip: tip === "" ? commit : tip }, never),
  );
  if (round.renews) await witness.call("addWorktree one", () => addTo(repos, repo, "one"));
  for (const each of evidence.filter(({ is }) => is === "kept")) {
    const fate = await fateOf(each, { saved, kept, directory: place });
    if (fate === "lost") witness.fault(`lost by a checkout: ${shownEvidence(each)}`);
  }
  await witness.call("fetch", () => fetchInto(repos, remote));
  const { branch } = worktree;
  const { value: two } = await witness.call("addWorktree two", () => addTo(repos, repo, "two", { branch }));
  if (two === null) return;
  const refs = await textIn(two.gitDir, "packed-refs");
  const ours = new RegExp(`^([0-9a-f]{40}) refs/heads/${branch}$`, "m").exec(refs)?.[1] ?? "none";
  if (!saved.commits.has(ours) && ours !== worktree.baseSha)
    witness.fault(`the next job on ${branch} begins at ${ours}`);
  if (tip !== "" && (await rawGit(place.savedDir, "rev-list", "--count", tip, `^${ours}`)).trim() !== "0")
    witness.fault(`the next job on ${branch} lacks what was pushed`);
};

const cleanUp = async ({ place, witness }: Game): Promise<void> => {
  const { repos, settings } = place;
  for (const worktreeId of ["two", "copy", "one"]) {
    await witness.call("removeWorktree", () => repos.removeWorktree({ worktreeId }, never));
    for (const left of [worktreeId, `.owned/${worktreeId}.git`, `.owned/${worktreeId}.json`])
      if ((await lstat(join(settings.worktreeRoot, left)).catch(() => null)) !== null)
        witness.fault(`${left} is left after the removal`);
  }
  const left = (await readdir(settings.worktreeRoot, { recursive: true })).filter(
    (name) => name !== ".owned",
  );
  if (left.length > 0) witness.fault(`left after all removals: ${left.join(", ")}`);
};

/** Bytes: no file of an agent's is to be held whole. */
const mostGrowth = 400 * 2 ** 20;

/** Of this process since the last call, bytes; 0: the kernel does not say. */
const peakMemory = async (): Promise<number> => {
  const [, peak = 0] = /^VmHWM:\s+(\d+)/m.exec(await textIn("/proc/self/status")) ?? [];
  await writeFile("/proc/self/clear_refs", "5").catch(() => undefined);
  return Number(peak) * 1024;
};

/** Plays a round from its choice alone. */
export const play = async (stock: Stock, round: Round, mode: WallMode): Promise<Played> => {
  const { base, number } = round;
  const place = await stock(base, { gitTimeout: gitTimeoutOf(round), number });
  const witness = createWitness();
  const saved: Saved = { trees: [], commits: new Set() };
  const game: Game = { round, mode, place, witness, evidence: [], saved, kept: [], inVain: [] };
  const thrown = (error: unknown): void => witness.fault(`the process throws ${String(error)}`);
  await peakMemory();
  const { rss } = process.memoryUsage();
  process.on("uncaughtException", thrown).on("unhandledRejection", thrown);
  try {
    await prepare(game);
    const check = await watchOutside(place);
    if (round.obeys !== "no" && mode !== "off") await obey(game);
    for (const look of round.looks) await lookings[look](game);
    const fates = await judge(game);
    await goOn(game);
    await findEscaped(place, witness);
    await check(witness);
    const ranInside = (await textIn(place.trap.directory, "ran")).split("\n").length - 1;
    await cleanUp(game);
    await check(witness, { isRemoved: true });
    const growth = (await peakMemory()) - rss;
    if (growth > mostGrowth) witness.fault(`the service takes ${growth} bytes at once`);
    const { faults, answers, refusals, slowest } = witness;
    const kept = game.kept.map((reason) =>
      reason.replace(/( at|:|\(|git does not take) .*$/s, "$1").slice(0, 60),
    );
    return { faults, answers, refusals, slowest: slowest(), fates, inVain: game.inVain, kept, ranInside };
  } finally {
    process.off("uncaughtException", thrown).off("unhandledRejection", thrown);
  }
};
