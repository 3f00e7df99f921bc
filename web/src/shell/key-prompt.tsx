import { useId, useState, type FormEvent } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import { Dialog } from "../parts/dialog.tsx";
import { needsKey, signIn } from "./service.ts";

/** Asks for a key while the service wants one. */
export const KeyPrompt = () => (needsKey.use() ? <Prompt /> : null);

const Prompt = () => {
  const [key, setKey] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isTrying, setTrying] = useState(false);
  const field = useId();

  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (key === "" || isTrying) return;
    setTrying(true);
    try {
      await signIn(key);
    } catch (error) {
      setKey("");
      setFault(faultOf(error));
    } finally {
      setTrying(false);
    }
  };

  return (
    <Dialog title="This service asks for a key">
      <form onSubmit={(event) => void submit(event)}>
        <label htmlFor={field}>One of its API keys</label>
        <input
          id={field}
          type="password"
          autoComplete="off"
          spellCheck={false}
          value={key}
          onChange={({ target }) => setKey(target.value)}
          aria-invalid={fault !== null}
          aria-describedby={`${field}-fault ${field}-note`}
        />
        <p id={`${field}-fault`} role="alert" className="fault">
          {fault}
        </p>
        <p id={`${field}-note`} className="note">
          Kept in this tab until you close it. The operator has set it in <code>SERVICE_API_KEYS</code>.
        </p>
        <button type="submit" className="primary" disabled={isTrying}>
          Use this key
        </button>
      </form>
    </Dialog>
  );
};

const faultOf = (error: unknown): string =>
  error instanceof ClientError && error.status === 401
    ? "That key is not one of the service's"
    : `The key could not be tried: ${error instanceof Error ? error.message : String(error)}`;
