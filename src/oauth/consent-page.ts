import { hash } from "node:crypto";
import type { Reply } from "../http/route.ts";
import type { Asked } from "./authorization-request.ts";
import { shownTarget } from "./redirect-uris.ts";

/** `action`: where the form is sent, from the page. */
type Shown = { asked: Asked; action: string; fault: string | null };

/** Asks the user, who proves with a key that this is theirs to permit. */
export const consentPage = ({ asked, action, fault }: Shown): Reply => {
  const { client, scopes, redirect_uri } = asked;
  const name = escaped(client.client_name || "An application without a name");
  return page({
    status: fault === null ? 200 : 403,
    title: fault === null ? "Sign in to the transcript service" : "Error: sign in to the transcript service",
    // A browser applies it to all that the form's answer leads to: the application may redirect on, to any scheme.
    formAction: "",
    body: `<h1>Let an application read your transcripts?</h1>
<p><strong><bdi>${name}</bdi></strong> asks for access. This is the name that it gave itself.</p>
<p>The answer goes to <strong>${escaped(shownTarget(redirect_uri))}</strong>. Go on only if you have just started to sign in there.</p>
<h2>It could then</h2>
<ul>${scopes.map((scope) => `<li>${escaped(meanings[scope] ?? scope)}</li>`).join("")}</ul>
<form method="post" action="${escaped(action)}">
${fault === null ? "" : `<p id="fault" role="alert">${escaped(fault)}</p>`}
<label for="key">One of the service's keys</label>
<input id="key" name="key" type="password" autocomplete="off" spellcheck="false"${fault === null ? "" : ' aria-invalid="true" aria-describedby="fault" autofocus'}>
<div><button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></div>
</form>`,
  });
};

const meanings: Record<string, string> = {
  read: "read and search all transcripts, plans and memory files; summaries and search by meaning ask the service's model, which may cost money",
  dispatch: "give coding agents new tasks, and read task and output of every job",
};

export const faultPage = (fault: string, status = 400): Reply =>
  page({
    status,
    title: "Signing in is not possible",
    formAction: "form-action 'none'; ",
    body: `<h1>Signing in is not possible</h1><p role="alert">${escaped(fault)}</p>`,
  });

type Page = { status: number; title: string; formAction: string; body: string };

const page = ({ status, title, formAction, body }: Page): Reply => ({
  status,
  headers: {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": `default-src 'none'; style-src 'sha256-${hash("sha256", style, "base64")}'; ${formAction}frame-ancestors 'none'; base-uri 'none'`,
    "x-frame-options": "DENY",
    // With no-referrer, browsers would name no origin when they send the form.
    "referrer-policy": "same-origin",
  },
  body: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>${escaped(title)}</title><style>${style}</style></head>
<body><main>${body}</main></body></html>
`,
});

const style = `:root{color-scheme:light dark;background:Canvas;color:CanvasText}
body{font:1rem/1.5 system-ui,sans-serif;margin:0;overflow-wrap:anywhere}
main{max-width:34rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem}
label,input{display:block}
input,button{font:inherit;box-sizing:border-box;padding:.5rem}
input{width:100%;margin:.25rem 0 1rem}
[role=alert]{border-left:.3rem solid;padding-left:.7rem;font-weight:bold}`;

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
