import { useMutation } from "@tanstack/react-query";
import { useId, useState } from "react";
import type { Secret, SecretPhase } from "../../../src/contract/secret.ts";
import { secretHosts } from "../../../src/view/secrets.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { Dialog, Form } from "../parts/dialog.tsx";
import { Select } from "../parts/filters.tsx";
import { Ledger } from "../parts/ledger.tsx";
import { useRead } from "../parts/read.ts";
import { Section } from "../parts/states.tsx";
import { Ago } from "../parts/values.tsx";
import { client, queries } from "../shell/service.ts";
import { Button } from "../shell/shortcuts.tsx";

const readAgain = () => queries.invalidateQueries({ queryKey: ["list_secrets"] });

export const Secrets = () => (
  <Section title="Secrets" query={useRead("list_secrets", {})}>
    {({ secrets }) => <List secrets={secrets} />}
  </Section>
);

const List = ({ secrets }: { secrets: readonly Secret[] }) => {
  const [isAdding, setAdding] = useState(false);
  const [going, setGoing] = useState<Secret | null>(null);
  return (
    <>
      {secrets.length === 0 ? (
        <p className="faint">No secrets</p>
      ) : (
        <Ledger
          label="Secrets"
          rows={secrets}
          keyOf={({ name, repo, phase }) => `${name} ${repo} ${phase}`}
          columns={[
            ["Secret", ({ name }) => name, "mono"],
            ["Repositories", ({ repo }) => oneLine(repo), "mono"],
            ["Phase", ({ phase }) => phase, "named"],
            ["Hosts", (secret) => oneLine(secretHosts(secret)), "named mono"],
            ["Set", (secret) => <Ago at={secret.created_at} />, "named"],
            [
              "Remove",
              (secret) => (
                <button type="button" onClick={() => setGoing(secret)}>
                  Remove<span className="visually-hidden"> {secret.name}</span>
                </button>
              ),
            ],
          ]}
        />
      )}
      <Button text="Set a secret" run={() => setAdding(true)} />
      {isAdding && <Adding onClose={() => setAdding(false)} />}
      {going !== null && <Removing secret={going} onClose={() => setGoing(null)} />}
    </>
  );
};

const Removing = ({ secret, onClose }: { secret: Secret; onClose: () => void }) => {
  const { name, repo, phase } = secret;
  const removal = useMutation({
    mutationFn: () => client().remove_secret({ name, repo, phase }),
    onSuccess: onClose,
    onSettled: readAgain,
  });
  return (
    <Dialog title={`Remove ${name}`} onClose={onClose}>
      <Form action={removal} yes="Remove the secret" note={<Button text="Keep it" run={onClose} />}>
        <p>
          Jobs of {oneLine(repo)} no longer get it in phase {phase}.
        </p>
      </Form>
    </Dialog>
  );
};

const phases = ["setup", "agent", "checks"] as const satisfies readonly SecretPhase[];

/** Who gets it, in words. */
const readers: Record<SecretPhase, string> = {
  setup: "Commands of a setup",
  agent: "The agent",
  checks: "Commands that check the work",
};

/** `hint`: an example. */
const fields = [
  { key: "name", label: "Name of the variable", hint: "NPM_TOKEN", type: "text" },
  { key: "repo", label: "Repositories", hint: "github.com/acme/*", type: "text" },
  { key: "hosts", label: "Hosts whose requests get it", hint: "npm.acme.example", type: "text" },
  { key: "header", label: "Header that it is put into", hint: "Authorization", type: "text" },
  { key: "branches", label: "Branches besides the default one, if plain", hint: "release/*", type: "text" },
  { key: "value", label: "Value", hint: "", type: "password" },
] as const;

type Draft = Record<(typeof fields)[number]["key"], string>;

/** The value is sent once, and shown nowhere. */
const Adding = ({ onClose }: { onClose: () => void }) => {
  const [draft, setDraft] = useState(Object.fromEntries(fields.map(({ key }) => [key, ""])) as Draft);
  const [plain, setPlain] = useState(false);
  const [phase, setPhase] = useState<SecretPhase>("setup");
  // An agent gets no plain value, and only a setup depends on its branch.
  const isPlain = plain && phase !== "agent";
  const shown = fields.filter(({ key }) => key !== "branches" || phase === "setup");
  const id = useId();
  const { name, repo, value } = draft;
  const setting = useMutation({
    mutationFn: () => {
      const typed = { ...draft, ...(phase !== "setup" && { branches: "" }) };
      const [hosts, branches] = [typed.hosts, typed.branches].map((text) =>
        text.split(/[\s,]+/).filter(Boolean),
      );
      const header = draft.header || null;
      const more = { hosts, header, plain: isPlain, branches: branches?.length ? branches : null };
      return client().set_secret({ name, repo, value, phase, ...more });
    },
    onSuccess: onClose,
    onSettled: readAgain,
  });
  return (
    <Dialog title="Set a secret" onClose={onClose}>
      <Form action={setting} yes="Store the secret" isReady={[name, repo, value].every(Boolean)}>
        <label className="field" htmlFor={`${id}-phase`}>
          Who gets it
        </label>
        <Select
          id={`${id}-phase`}
          value={phase}
          options={phases.map((each) => [each, readers[each]] as const)}
          change={(chosen) => setPhase(phases.find((each) => each === chosen) ?? "setup")}
        />
        {phase !== "agent" && (
          <label>
            <input type="checkbox" checked={plain} onChange={({ target }) => setPlain(target.checked)} />{" "}
            Plain: given as it is, so code that runs with it can learn it
          </label>
        )}
        {shown.map(({ key, label, hint, type }) => (
          <label key={key} className="stack">
            {label}
            {key === "hosts" && phase !== "agent" && ": none, and it is plain"}
            <input
              type={type}
              placeholder={hint}
              autoComplete="off"
              spellCheck={false}
              value={draft[key]}
              onChange={({ target }) => setDraft({ ...draft, [key]: target.value })}
            />
          </label>
        ))}
      </Form>
    </Dialog>
  );
};
