import type { Source } from "./corpus.ts";
import type { Found } from "./discovery.ts";

type Match = {
  pairs: [source: Source, file: Found][];
  fresh: Found[];
  /** Sources without a file. */
  gone: Source[];
};

/**
 * Which file belongs to which source: by its path; else, when it was renamed, by its identity and content. A file with
 * several names counts once.
 */
export const matchFiles = async (
  found: readonly Found[],
  sources: readonly Source[],
  holds: (path: string, source: Source) => Promise<boolean>,
): Promise<Match> => {
  const byPath = new Map<string, Source>();
  for (const source of sources)
    if (byPath.get(source.path)?.deleted !== false) byPath.set(source.path, source);
  const files = withOneName(found, byPath);
  const inSight = new Set(files.map(({ path }) => path));
  const missing = new Map<string, Source>();
  for (const source of sources) if (!inSight.has(source.path)) missing.set(source.file_id, source);

  const match: Match = { pairs: [], fresh: [], gone: [] };
  const taken = new Set<Source>();
  for (const file of files) {
    const renamed = missing.get(file.file_id);
    const source = byPath.get(file.path);
    if (source !== undefined) {
      taken.add(source);
      match.pairs.push([source, file]);
    } else if (
      renamed !== undefined &&
      renamed.kind === file.kind &&
      renamed.collected > 0 &&
      (await holds(file.path, renamed))
    ) {
      missing.delete(file.file_id);
      taken.add(renamed);
      match.pairs.push([renamed, file]);
    } else {
      match.fresh.push(file);
    }
  }
  match.gone = sources.filter((source) => !taken.has(source));
  return match;
};

/** Of several names of one file the one that is a source already, else the first found. */
const withOneName = (found: readonly Found[], byPath: ReadonlyMap<string, Source>): Found[] => {
  const chosen = new Map<string, Found>();
  const rank = ({ path, file_id }: Found): number => {
    const source = byPath.get(path);
    if (source === undefined) return 0;
    return source.file_id === file_id ? 2 : 1;
  };
  for (const file of found) {
    const other = chosen.get(file.file_id);
    if (other === undefined || rank(file) > rank(other)) chosen.set(file.file_id, file);
  }
  return [...chosen.values()];
};
