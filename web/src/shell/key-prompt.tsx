import { Dialog } from "../parts/dialog.tsx";
import { KeyForm } from "../parts/key-form.tsx";
import { needsKey, signIn } from "./service.ts";

/** Asks for a key while the service wants one. */
export const KeyPrompt = () =>
  needsKey.use() ? (
    <Dialog title="This service asks for a key">
      <KeyForm
        label="One of its API keys"
        refused="That key is not one of the service's"
        note={
          <>
            Kept in this tab until you close it. The operator has set it in <code>SERVICE_API_KEYS</code>.
          </>
        }
        use={signIn}
      />
    </Dialog>
  ) : null;
