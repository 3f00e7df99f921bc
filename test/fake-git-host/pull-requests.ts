import { HostError } from "./host-error.ts";
import { branchExists, commitsBetween } from "./repositories.ts";
import { may, type PullRequest, type Repository, type State, type Token } from "./state.ts";

export type NewPullRequest = Pick<PullRequest, "title" | "body" | "head" | "base" | "draft">;

/** Opens a pull request under the real host's rules. @throws HostError 403, 422 */
export const addPullRequest = async (
  state: State,
  { repository, token, request }: { repository: Repository; token: Token; request: NewPullRequest },
): Promise<PullRequest> => {
  if (!may(token, "write", repository)) throw new HostError(403, "Resource not accessible by integration");
  // A head of the same owner may be written `owner:branch`.
  const head = request.head.replace(`${repository.owner}:`, "");
  const { base } = request;
  if (!(await branchExists(repository, base))) throw new HostError(422, "Base ref must be a branch");
  if (!(await branchExists(repository, head))) throw new HostError(422, "Head ref must be a branch");
  if ((await commitsBetween(repository, base, head)) === 0)
    throw new HostError(422, `No commits between ${base} and ${head}`);
  const same = pullRequestsOf(state, repository).find(
    (other) => other.state === "OPEN" && other.head === head && other.base === base,
  );
  if (same) throw new HostError(422, `A pull request already exists for ${repository.owner}:${head}.`);
  const number = pullRequestsOf(state, repository).length + 1;
  const pullRequest: PullRequest = {
    ...request,
    createdAt: new Date().toISOString(),
    number,
    owner: repository.owner,
    repository: repository.name,
    head,
    state: "OPEN",
    author: token.login,
    url: `${state.origin}/${repository.owner}/${repository.name}/pull/${number}`,
  };
  state.pullRequests.push(pullRequest);
  return pullRequest;
};

export const pullRequestsOf = (state: State, { owner, name }: Repository): PullRequest[] =>
  state.pullRequests.filter((pullRequest) => pullRequest.owner === owner && pullRequest.repository === name);
