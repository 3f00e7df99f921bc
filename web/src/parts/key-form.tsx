import { useId, useState, type FormEvent, type ReactNode } from "react";
import { ClientError } from "../../../src/client/client-error.ts";

type Props = {
  label: string;
  note: ReactNode;
  /** Says that the key was refused. */
  refused: string;
  /** Tries the key. @throws ClientError 401 or 403 for one that is refused */
  use: (key: string) => Promise<void>;
};

/** Asks for a key. */
export const KeyForm = ({ label, note, refused, use }: Props) => {
  const [key, setKey] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isTrying, setTrying] = useState(false);
  const field = useId();

  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (key === "" || isTrying) return;
    setTrying(true);
    try {
      await use(key);
    } catch (error) {
      const isRefused = error instanceof ClientError && [401, 403].includes(error.status);
      const why = error instanceof Error ? error.message : String(error);
      setKey("");
      setFault(isRefused ? refused : `The key could not be tried: ${why}`);
    } finally {
      setTrying(false);
    }
  };

  return (
    <form className="key" onSubmit={(event) => void submit(event)}>
      <label htmlFor={field}>{label}</label>
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
        {note}
      </p>
      <button type="submit" className="primary" disabled={isTrying}>
        Use this key
      </button>
    </form>
  );
};
