import { Hono } from "hono";
import { z } from "zod";
import { checkAppJwt, mintInstallationToken } from "./apps.ts";
import { authenticate } from "./authentication.ts";
import { HostError } from "./host-error.ts";
import { addPullRequest, pullRequestsOf } from "./pull-requests.ts";
import { addRepository } from "./repositories.ts";
import {
  type Owner,
  type PullRequest,
  type Repository,
  type State,
  type Token,
  fullName,
  may,
  visibleRepository,
} from "./state.ts";

const NewRepository = z.object({
  name: z.string(),
  private: z.boolean().optional(),
  auto_init: z.boolean().optional(),
});
const NewPullRequest = z.object({
  title: z.string(),
  head: z.string(),
  base: z.string(),
  body: z.string().nullish(),
  draft: z.boolean().optional(),
});

const ChangedPullRequest = z.object({ body: z.string() });

/** The REST API as far as gh, Octokit and the service ask it, under `/api/v3`. */
export const restApi = (state: State) => {
  const api = new Hono<{ Variables: { token: Token | null } }>().basePath("/api/v3");

  api.post("/app/installations/:id/access_tokens", async (context) => {
    const body: unknown = await context.req.json().catch(() => null);
    const authorization = context.req.header("authorization");
    return context.json(
      mintInstallationToken(state, { installationId: context.req.param("id"), authorization, body }),
      201,
    );
  });
  api.get("/app", (context) => {
    const app = checkAppJwt(state, context.req.header("authorization"));
    return context.json({ id: Number(app.appId), slug: `app-${app.appId}`, name: `app-${app.appId}` });
  });

  api.use(async (context, next) => {
    context.set("token", authenticate(state, context.req.header("authorization")));
    context.header("X-OAuth-Scopes", "repo, read:org");
    await next();
  });
  api.get("/", (context) => context.json({ current_user_url: `${state.origin}/api/v3/user` }));
  api.get("/user", (context) => context.json(userJson(ownerOf(state, signedIn(context.get("token")).login))));
  api.get("/users/:login", (context) => context.json(userJson(ownerOf(state, context.req.param("login")))));
  api.get("/orgs/:login", (context) =>
    context.json(userJson(ownerOf(state, context.req.param("login"), "Organization"))),
  );

  const createRepository = async (token: Token | null, login: string, body: unknown) => {
    if (signedIn(token).access === "read")
      throw new HostError(403, "Resource not accessible by personal access token");
    const request = NewRepository.parse(body);
    const seed = request.auto_init ? { "README.md": `# ${request.name}\n` } : null;
    return repositoryJson(
      state,
      token,
      await addRepository(state, login, request.name, { private: request.private ?? false, seed }),
    );
  };
  api.post("/user/repos", async (context) => {
    const token = context.get("token");
    return context.json(await createRepository(token, signedIn(token).login, await context.req.json()), 201);
  });
  api.post("/orgs/:login/repos", async (context) => {
    const owner = ownerOf(state, context.req.param("login"), "Organization");
    return context.json(
      await createRepository(context.get("token"), owner.login, await context.req.json()),
      201,
    );
  });

  const asked = (token: Token | null, { owner, name }: { owner: string; name: string }) =>
    visibleRepository(state, token, fullName(owner, name));
  api.get("/repos/:owner/:name", (context) =>
    context.json(
      repositoryJson(state, context.get("token"), asked(context.get("token"), context.req.param())),
    ),
  );
  api.get("/repos/:owner/:name/pulls", (context) => {
    const { head, base, state: wanted = "open" } = context.req.query();
    const repository = asked(context.get("token"), context.req.param());
    const found = pullRequestsOf(state, repository).filter(
      (pull) =>
        (wanted === "all" || (wanted === "open") === (pull.state === "OPEN")) &&
        (head === undefined || head === `${repository.owner}:${pull.head}`) &&
        (base === undefined || base === pull.base),
    );
    return context.json(found.map(pullRequestJson));
  });
  api.post("/repos/:owner/:name/pulls", async (context) => {
    const { body, draft = false, ...request } = NewPullRequest.parse(await context.req.json());
    const token = signedIn(context.get("token"));
    const created = await addPullRequest(state, {
      repository: asked(context.get("token"), context.req.param()),
      token,
      request: { ...request, body: body ?? "", draft },
    });
    return context.json(pullRequestJson(created), 201);
  });
  api.on(["GET", "PATCH"], "/repos/:owner/:name/pulls/:number", async (context) => {
    const token = context.get("token");
    const number = Number(context.req.param("number"));
    const found = pullRequestsOf(state, asked(token, context.req.param())).find(
      (pull) => pull.number === number,
    );
    if (!found) throw new HostError(404, "Not Found");
    if (context.req.method === "PATCH") {
      if (signedIn(token).access === "read") throw new HostError(403, "Resource not accessible");
      found.body = ChangedPullRequest.parse(await context.req.json()).body;
    }
    return context.json(pullRequestJson(found));
  });
  api.notFound(() => {
    throw new HostError(404, "Not Found");
  });
  // One place renders all errors: the listener.
  api.onError((error) => {
    throw error;
  });
  return api;
};

const signedIn = (token: Token | null): Token => {
  if (!token) throw new HostError(401, "Requires authentication");
  return token;
};

const ownerOf = (state: State, login: string, kind?: Owner["kind"]): Owner => {
  const owner = state.owners.get(login.toLowerCase());
  if (!owner || (kind && owner.kind !== kind)) throw new HostError(404, "Not Found");
  return owner;
};

const userJson = ({ id, login, kind }: Owner) => ({
  id,
  login,
  type: kind,
  node_id: `O_${login}`,
  name: login,
});

const repositoryJson = (state: State, token: Token | null, repository: Repository) => ({
  id: repository.id,
  node_id: `R_${repository.id}`,
  name: repository.name,
  full_name: `${repository.owner}/${repository.name}`,
  private: repository.private,
  owner: userJson(ownerOf(state, repository.owner)),
  default_branch: repository.defaultBranch,
  html_url: repository.url.replace(/\.git$/, ""),
  clone_url: repository.url,
  permissions: { pull: true, push: may(token, "write", repository), admin: false },
});

const pullRequestJson = (pull: PullRequest) => ({
  number: pull.number,
  node_id: `PR_${pull.number}`,
  title: pull.title,
  body: pull.body,
  draft: pull.draft,
  state: pull.state === "OPEN" ? "open" : "closed",
  html_url: pull.url,
  user: { login: pull.author },
  head: { ref: pull.head, label: `${pull.owner}:${pull.head}` },
  base: { ref: pull.base, label: `${pull.owner}:${pull.base}` },
});
