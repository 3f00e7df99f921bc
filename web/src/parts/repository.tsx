import { repositoryName } from "../../../src/contract/repository-url.ts";
import { oneLine } from "../../../src/view/sanitise.ts";

/** A repository by its last two parts, `acme/app`; pointed at, its whole address. Empty: none. */
export const shortRepository = (url: string): string =>
  url === "" ? "" : oneLine(repositoryName(url).split("/").filter(Boolean).slice(-2).join("/"));

/** The host of a pull request is not ours: its address must not run as script. */
export const isWeb = (url: string | null): url is string => url !== null && /^https?:\/\//.test(url);

export const Repository = ({ url }: { url: string }) => (
  <span className="mono" title={oneLine(url)}>
    {shortRepository(url)}
  </span>
);
