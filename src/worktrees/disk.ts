import type { StatsFs } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import type { RepositoryUsage, Volume } from "../contract/worktree.ts";
import type { Measuring } from "./measure.ts";
import { lookUpAll, type FactSources } from "./facts.ts";

type DiskSettings = { reposRoot: string; worktreeRoot: string; jobsDir: string; minFreeDiskBytes: number };

/** How long a reading of the disks is cached, ms: every submission asks. */
const cacheMs = 1000;

/** Free space on the disks that jobs write to. */
export const createDisks = (settings: DiskSettings, now: () => Date) => {
  const { minFreeDiskBytes: minFreeBytes } = settings;
  const places: Pick<Volume, "path" | "purpose">[] = [
    { path: settings.reposRoot, purpose: "repositories" },
    { path: settings.worktreeRoot, purpose: "worktrees" },
    { path: settings.jobsDir, purpose: "jobs" },
  ];
  let last: { at: number; volumes: Promise<Volume[]> } | null = null;

  const volumes = (): Promise<Volume[]> => {
    const at = now().getTime();
    if (last === null || Math.abs(at - last.at) >= cacheMs)
      last = { at, volumes: Promise.all(places.map(look)) };
    return last.volumes;
  };

  return {
    volumes,
    /**
     * `least`: bytes that must be free although the settings ask for less. `only`: the disk that is to be written to.
     * @throws ServiceError `disk_full`
     */
    requireRoom: async (least = 0, only: Volume["purpose"] | null = null): Promise<void> => {
      const floor = Math.max(minFreeBytes, least);
      const written = (await volumes()).filter(({ purpose }) => only === null || purpose === only);
      const full = written.find(({ free_bytes }) => free_bytes !== null && free_bytes < floor);
      if (full === undefined) return;
      const what =
        floor > minFreeBytes
          ? "is full"
          : `has ${mebibytes(full.free_bytes ?? 0)} MiB free, less than the ${mebibytes(minFreeBytes)} MiB of SERVICE_MIN_FREE_DISK_BYTES`;
      throw new ServiceError(
        "disk_full",
        `The disk of ${full.path} ${what}; remove worktrees (svc worktrees cleanup) or free some room, then try again`,
        { retryAfter: 60 },
      );
    },
  };
};

const mebibytes = (bytes: number): number => Math.floor(bytes / 1024 / 1024);

const look = async ({ path, purpose }: Pick<Volume, "path" | "purpose">): Promise<Volume> => {
  const stats = await statfsAbove(path).catch(() => null);
  // What an unprivileged process may still write, without the reserve of root.
  const [free_bytes, total_bytes] =
    stats === null ? [null, null] : [writable(stats) * stats.bsize, stats.blocks * stats.bsize];
  return { path, purpose, free_bytes, total_bytes };
};

/** Blocks; none is usable without a free inode. A file system without inodes reports 0 of them. */
const writable = ({ bavail, files, ffree }: StatsFs): number => (files > 0 && ffree === 0 ? 0 : bavail);

/** Directories are made on first use: until then the nearest existing parent tells the disk. */
const statfsAbove = async (path: string): Promise<StatsFs> => {
  try {
    return await statfs(path);
  } catch (error) {
    if (dirname(path) === path) throw error;
    return statfsAbove(dirname(path));
  }
};

/** Disk usage by repository, largest first. */
export const repositoryUsage = async (deps: FactSources & { measuring: Measuring }) => {
  const [caches, worktrees] = await Promise.all([deps.measuring.caches(), lookUpAll(deps)]);
  const byKey = new Map<string | null, RepositoryUsage>();
  const usageOf = (key: string | null, url: string): RepositoryUsage => {
    const none = { cache_bytes: 0, worktrees: 0, worktree_bytes: 0, unmeasured: 0, kept: [] };
    const usage = byKey.get(key) ?? { repo_key: key, repo_url: url, ...none };
    byKey.set(key, usage);
    return usage;
  };
  for (const { key, url, bytes, damaged } of caches) {
    const kept = damaged.map((path) => `damaged clone at ${path}`);
    Object.assign(usageOf(key, url), { cache_bytes: bytes, kept });
  }
  const here = worktrees.filter(({ otherHost }) => otherHost === null);
  const sizes = await deps.measuring.sizes(here);
  for (const [nth, { id, about, onDisk }] of here.entries()) {
    const usage = usageOf(about.repoKey, about.repoUrl);
    usage.worktrees += 1;
    usage.worktree_bytes += sizes[nth] ?? 0;
    if (sizes[nth] === undefined) usage.unmeasured += 1;
    usage.kept.push(...(onDisk?.kept ?? []).map((what) => `${id}: ${what}`));
  }
  const total = ({ cache_bytes, worktree_bytes }: RepositoryUsage): number => cache_bytes + worktree_bytes;
  return [...byKey.values()].toSorted(
    (a, b) => total(b) - total(a) || ((a.repo_key ?? "") < (b.repo_key ?? "") ? -1 : 1),
  );
};
