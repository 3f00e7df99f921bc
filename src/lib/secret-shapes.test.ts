import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { maskSecrets } from "./secret-shapes.ts";

/** Made up here, in two halves: scanners of repositories should not find them. */
const of = (head: string, tail: string): string => head + tail;
const random = "q7Rk2ZpX9vLm4TbN8wYc6HdJ3sFgA5uE1iKo";
const jwt = of(
  "eyJhbGciOiJIUzI1NiJ9",
  ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
);
const pem = of(
  "-----BEGIN RSA PRIVATE",
  ` KEY-----\n${`${random}${random}\n`.repeat(3)}-----END RSA PRIVATE KEY-----`,
);
const aws = of("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYzEXAMPLEKEY");

test.each([
  ["a GitHub token", of("ghp_", random)],
  ["a GitHub OAuth token", of("gho_", random)],
  ["a GitHub App's token", of("ghs_", random)],
  ["a fine-grained GitHub token", of("github_pat_", `11ABCDEFG0_${random}${random}`)],
  ["an Anthropic key", of("sk-ant-", `api03-${random}-AA`)],
  ["an OpenAI key", of("sk-", random)],
  ["an OpenAI project key", of("sk-proj-", `${random}_${random}`)],
  ["an AWS key id", of("AKIA", "IOSFODNN7EXAMPLE")],
  ["an AWS key id with its secret", of("AKIA", `IOSFODNN7EXAMPLE,${aws.padEnd(40, "x").slice(0, 40)}`)],
  ["a Slack token", of("xoxb-", "123456789012-123456789012-abcdefghijkl")],
  ["a Slack webhook", of("hooks.slack.com/services/", "T00000000/B00000000/abcdefghijklmnop")],
  ["a Google key", of("AIza", random.slice(0, 35))],
  ["a JSON Web Token", jwt],
  ["an npm token", of("npm_", random)],
  ["a GitLab token", of("glpat-", "abcdefghij0123456789")],
  ["a Stripe key", of("sk_live_", "abcdefghij0123456789")],
  ["a Hugging Face token", of("hf_", random)],
  ["a Vault token", of("hvs.", `CAESI${random}`)],
  ["a Tailscale key", of("tskey-", `auth-${random.slice(0, 20)}`)],
  ["an Atlassian token", of("ATATT", `3xFfGF0${random}`)],
  ["a Supabase token", of("sbp_", "8f14e45fceea167a5a36dedd4bea25438f14e45f")],
  ["a Linear key", of("lin_api_", random)],
  ["a Notion token", of("ntn_", random)],
  ["a Figma token", of("figd_", random)],
  ["an xAI key", of("xai-", random)],
  ["a Perplexity key", of("pplx-", random)],
  ["a Replicate token", of("r8_", random)],
  ["a Postman key", of("PMAK-", `8f14e45fceea167a5a36dedd-${random}`)],
])("%s is masked, with what is around it kept", (_, secret) => {
  expect(maskSecrets(`before ${secret} after`)).toBe("before *** after");
  expect(maskSecrets(JSON.stringify(`line\n${secret}`))).toBe(String.raw`"line\n***"`);
  expect(maskSecrets(`("${secret}")`)).toBe('("***")');
});

test.each([
  ["as it is", pem],
  ["with line numbers", pem.replaceAll(/^/gm, "   12→")],
  ["as a diff", pem.replaceAll("\n", "\n-")],
  ["in JSON", JSON.stringify(pem)],
  ["without its end", pem.slice(0, 90)],
  ["encrypted", pem.replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,5E\n\n")],
])("the body of a private key is masked %s", (_, key) => {
  expect(maskSecrets(key)).not.toContain(random.slice(0, 12));
});

test.each([
  [`api_key=${random}`, "api_key=***"],
  [`"token": "${random}"`, '"token": "***"'],
  [String.raw`{\"clientSecret\": \"${random}\"}`, String.raw`{\"clientSecret\": \"***\"}`],
  ["PASSWORD: hunter2", "PASSWORD: ***"],
  ["DB_PASSWORD='s3cret!pass'", "DB_PASSWORD='***'"],
  ["passwd = 12345678", "passwd = ***"],
  [`AWS_SECRET_ACCESS_KEY=${aws}`, "AWS_SECRET_ACCESS_KEY=***"],
  ["apiKey: '8f14e45fceea167a5a36dedd4bea2543'", "apiKey: '***'"],
  ["api-key: 0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10", "api-key: ***"],
  [`svc run --token ${random} x`, "svc run --token *** x"],
  ["mysql --db-password s3cret! app", "mysql --db-password *** app"],
  [`https://example.com/?access_token=${random}&page=2`, "https://example.com/?access_token=***&page=2"],
  ["postgres://app:s3cret@db:5432/app", "postgres://app:***@db:5432/app"],
  ["redis://:s3cret@db/0", "redis://:***@db/0"],
  [`https://${random}@example.com/x.git`, "https://***@example.com/x.git"],
  [`Authorization: Bearer ${random}`, "Authorization: Bearer ***"],
  ["curl -H 'Authorization: Basic dXNlcjpwYXNz'", "curl -H 'Authorization: Basic ***'"],
  [`//registry.example/:_authToken=${random}`, "//registry.example/:_authToken=***"],
  [`"auth": "dXNlcjpwYXNzd29yZDE="`, '"auth": "***"'],
  [of("bot123456789:AA", random.slice(0, 33)), "bot123456789***"],
  ["Cookie: session=abc123def; theme=dark", "Cookie: ***"],
  ["< set-cookie: sid=s%3Aabcdef; Path=/; HttpOnly", "< set-cookie: ***"],
  ["curl -H 'Cookie: sid=abcdef123' https://x", "curl -H 'Cookie: ***' https://x"],
  ["https://x.blob.example/a?sv=1&sig=q7Rk2ZpX9vLm4TbN8w%2F", "https://x.blob.example/a?sv=1&sig=***"],
  [`https://maps.example/api?key=${random}`, "https://maps.example/api?key=***"],
  ["curl -s -u ana:hunter2x https://x", "curl -s -u ana:*** https://x"],
  ["curl --user 'ana:secretly' https://x", "curl --user 'ana:***' https://x"],
  ["mysql -h db -uroot -psecretly app", "mysql -h db -uroot -p*** app"],
  ["sshpass -p 'secretly' ssh host", "sshpass -p '***' ssh host"],
  ["docker login -u ana -p secretly registry.example", "docker login -u ana -p *** registry.example"],
  [`client-key-data: ${random}${random}==`, "client-key-data: ***"],
])("%s becomes %s", (text, expected) => {
  expect(maskSecrets(text)).toBe(expected);
  expect(maskSecrets(expected)).toBe(expected);
});

test.each([
  "commit 9f2c1e7b5a3d4f60718293a4b5c6d7e8f9012345",
  "session 0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
  '"integrity": "sha512-q7Rk2ZpX9vLm4TbN8wYc6HdJ3sFgA5uE1iKoq7Rk2ZpX9vLm4TbN8w=="',
  "const token = await getToken(session.user2);",
  "const apiKey = process.env.API_KEY2;",
  "password: z.string().min(8).max(100)",
  "if (password === confirmation2) return;",
  "password: string;",
  "export GITHUB_TOKEN=$GH_TOKEN_2",
  "token: ${{ secrets.NPM_TOKEN }}",
  "https://x-access-token:${TOKEN}@github.com/acme/app",
  "PWD=/home/user1/project2",
  "max_tokens: 200000, total_tokens=12345678901234",
  '"token_model": "gpt-4o-mini-2024-07-18"',
  "token_expires_at: 2026-03-02T09:15:00.000Z",
  "secretName: my-app-secret-v2-production",
  "tokenizer = sentencepiece_bpe_v12_large",
  'class="sk-folding-cube-container-large"',
  "task-1234567890-abcdefghij-klmnop",
  "the bearer internationalization2 token",
  "ssh://git@github.com/acme/app.git and git@github.com:acme/app.git",
  "https://example.com/a:b@c",
  "-----BEGIN PRIVATE KEY----- is how such a file begins",
  "author: jane_doe_1985_example",
  "api_key: your-api-key-here-1",
  "passwordHash(user2)",
  "src/auth/token.test.ts:123:45",
  "docker run -u 1000:1000 image, curl -u $USER:$PASS https://x, mysql -p app, mkdir -p src/app2",
  "cookie: string; Set-Cookie: see RFC 6265",
  "https://x.example/?key=name&sig=abc",
  "toolu_01A09q90qw90lq917835lq9 req_011CSHoEeqs5C35K2UUqR7Fy",
])("it stays: %s", (text) => {
  expect(maskSecrets(text)).toBe(text);
});

const longPieces =
  "-----BEGIN PRIVATE KEY-----|Bearer |password: | |--token a|Cookie: a|curl -u |curl |mysql -p | -u a:| -p abc|docker login ";
const shortPieces =
  "ghp_ token= eyJaaaaaaaa sk- a:// --a SG. api_key=' a \\ AKIA xoxb- x:y@ eyJ. token=a( cookie: ?key=";

test.each([...shortPieces.split(" "), ...longPieces.split("|")])(
  "half a megabyte of %j takes less than a second",
  async (piece) => {
    const text = piece.repeat(Math.ceil(500_000 / piece.length));
    const ms = await longestBlock(async () => {
      maskSecrets(text);
      maskSecrets(`${text}!`);
    });
    expect(ms).toBeLessThan(1000);
  },
);
