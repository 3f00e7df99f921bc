import { z } from "zod";
import { HostError } from "./host-error.ts";
import { addPullRequest, pullRequestsOf } from "./pull-requests.ts";
import { addRepository } from "./repositories.ts";
import {
  type PullRequest,
  type Repository,
  type State,
  type Token,
  may,
  visibleRepository,
} from "./state.ts";

const Request = z.object({ query: z.string(), variables: z.record(z.string(), z.unknown()).nullish() });
type Variables = Record<string, unknown>;

/**
 * The GraphQL API as far as gh asks it. Nothing is selected: an object is answered with all the fields that the
 * stand-in has, gh takes those it asked for.
 */
export const answerGraphql = async (state: State, token: Token | null, body: unknown): Promise<unknown> => {
  if (!token) throw new HostError(401, "This endpoint requires you to be authenticated.");
  const { query, variables } = Request.parse(body);
  try {
    return { data: await resolve({ state, token, query, variables: variables ?? {} }) };
  } catch (error) {
    if (error instanceof HostError && error.status in errorTypes) return graphqlError(error);
    throw error;
  }
};

/** GraphQL's own form of a refusal: status 200 and a typed error. Null: the status itself is the answer. */
export const graphqlError = ({ status, message }: HostError) =>
  status in errorTypes ? { data: null, errors: [{ type: errorTypes[status], path: [], message }] } : null;

const errorTypes: Record<number, string> = { 403: "FORBIDDEN", 404: "NOT_FOUND", 422: "UNPROCESSABLE" };

type Query = { state: State; token: Token; query: string; variables: Variables };

const resolve = async (request: Query): Promise<Record<string, unknown>> => {
  const { state, token, query, variables } = request;
  if (query.includes("createPullRequest("))
    return { createPullRequest: { pullRequest: await createPullRequest(request) } };
  if (query.includes("convertPullRequestToDraft("))
    return { convertPullRequestToDraft: { pullRequest: convertToDraft(request) } };
  if (query.includes("createRepository("))
    return { createRepository: { repository: await createRepository(request) } };
  const data: Record<string, unknown> = {};
  if (/\bviewer\s*\{/.test(query)) data["viewer"] = { login: token.login, id: `U_${token.login}` };
  for (const [, alias = "__type"] of query.matchAll(/(?:(\w+)\s*:\s*)?__type\s*\(/g))
    data[alias] = { fields: [], enumValues: [], inputFields: [] };
  for (const [, alias = "repository", argumentText = ""] of query.matchAll(
    /(?:(\w+)\s*:\s*)?\brepository\s*\(([^)]*)\)/g,
  )) {
    const name = `${argument(argumentText, "owner", variables)}/${argument(argumentText, "name", variables)}`;
    data[alias] = repositoryNode(request, visibleRepository(state, token, name));
  }
  if (Object.keys(data).length === 0) throw new Error(`the fake git host does not know this query: ${query}`);
  return data;
};

/** The value of `name: $variable` or `name: "literal"`. */
const argument = (text: string, name: string, variables: Variables): string => {
  const [, variable, literal] = new RegExp(`\\b${name}\\s*:\\s*(?:\\$(\\w+)|"([^"]*)")`).exec(text) ?? [];
  return variable === undefined ? (literal ?? "") : String(variables[variable]);
};

const PullRequestInput = z.object({
  repositoryId: z.string(),
  title: z.string(),
  body: z.string().default(""),
  baseRefName: z.string(),
  headRefName: z.string(),
  draft: z.boolean().default(false),
});

const createPullRequest = async ({ state, token, variables }: Query) => {
  const { repositoryId, baseRefName, headRefName, ...rest } = PullRequestInput.parse(variables["input"]);
  const repository = [...state.repositories.values()].find(({ id }) => repositoryId === `R_${id}`);
  if (!repository)
    throw new HostError(404, `Could not resolve to a node with the global id of '${repositoryId}'`);
  return pullRequestNode(
    await addPullRequest(state, {
      repository,
      token,
      request: { ...rest, base: baseRefName, head: headRefName },
    }),
  );
};

const convertToDraft = ({ state, variables }: Query) => {
  const { pullRequestId } = z.object({ pullRequestId: z.string() }).parse(variables["input"]);
  const pull = state.pullRequests.find((each) => pullRequestNode(each).id === pullRequestId);
  if (!pull) throw new HostError(404, `Could not resolve to a node with the global id of '${pullRequestId}'`);
  pull.draft = true;
  // gh asks for no more here, and refuses what it did not ask for.
  return { id: pullRequestId };
};

const RepositoryInput = z.object({ name: z.string(), visibility: z.string(), ownerId: z.string().nullish() });

const createRepository = async (request: Query) => {
  const { state, token, variables } = request;
  const { name, visibility, ownerId } = RepositoryInput.parse(variables["input"]);
  if (token.access === "read") throw new HostError(403, "Resource not accessible by personal access token");
  const owner = ownerId?.replace(/^O_/, "") ?? token.login;
  return repositoryNode(
    request,
    await addRepository(state, owner, name, { private: visibility !== "PUBLIC", seed: null }),
  );
};

const repositoryNode = ({ state, token, variables }: Query, repository: Repository) => {
  const pulls = pullRequestsOf(state, repository)
    .toReversed()
    .filter((pull) => fits(pull, variables));
  return {
    id: `R_${repository.id}`,
    name: repository.name,
    nameWithOwner: `${repository.owner}/${repository.name}`,
    owner: { id: `O_${repository.owner}`, login: repository.owner },
    url: repository.url.replace(/\.git$/, ""),
    isPrivate: repository.private,
    hasIssuesEnabled: true,
    hasWikiEnabled: false,
    description: "",
    viewerPermission: may(token, "write", repository) ? "WRITE" : "READ",
    defaultBranchRef: { name: repository.defaultBranch },
    parent: null,
    mergeCommitAllowed: true,
    rebaseMergeAllowed: true,
    squashMergeAllowed: true,
    pullRequests: {
      totalCount: pulls.length,
      nodes: pulls.map(pullRequestNode),
      pageInfo: { hasNextPage: false, endCursor: null },
    },
    pullRequest:
      pulls
        .filter((pull) => pull.number === Number(variables["pr_number"] ?? variables["number"]))
        .map(pullRequestNode)[0] ?? null,
  };
};

const fits = (pull: PullRequest, variables: Variables): boolean => {
  const states = [variables["state"] ?? variables["states"] ?? []].flat();
  const branch = variables["headBranch"] ?? variables["headRefName"];
  const base = variables["baseBranch"];
  return (
    (states.length === 0 || states.includes(pull.state)) &&
    (branch === undefined || branch === pull.head) &&
    (base === undefined || base === pull.base)
  );
};

const pullRequestNode = (pull: PullRequest) => ({
  id: `PR_${pull.url}`,
  number: pull.number,
  title: pull.title,
  body: pull.body,
  url: pull.url,
  createdAt: pull.createdAt,
  state: pull.state,
  isDraft: pull.draft,
  headRefName: pull.head,
  baseRefName: pull.base,
  headRepositoryOwner: { id: `O_${pull.owner}`, login: pull.owner },
  headRepository: { id: `R_${pull.repository}`, name: pull.repository },
  isCrossRepository: false,
  author: { login: pull.author },
});
