import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { asksPerson, isFinal, type Job, type Message } from "../../../src/contract/job.ts";
import { oneLine } from "../../../src/view/sanitise.ts";
import { whenHeard } from "../../../src/view/message.ts";
import { Form } from "../parts/dialog.tsx";
import { Select } from "../parts/filters.tsx";
import { client, newKey, queries } from "../shell/service.ts";
import { setJob } from "./follow.ts";

const reread = (id: string): Promise<void> =>
  queries.invalidateQueries({ queryKey: ["get_job", { job_id: id }] });

/** The same draft is said once, however often it is sent: another text gets another key. */
const newDraft = (text: string, when: Message["when"]) => ({ text, when, idempotencyKey: newKey() });

/** A word to the agent. It stays when the job ends, which is then continued: what is being written must not be lost. */
export const Say = ({ job }: { job: Job }) => {
  const { id, status, messages } = job;
  const [isShown] = useState(() => !isFinal(status));
  const [draft, setDraft] = useState(() => newDraft("", "next"));
  const [, navigate] = useLocation();
  const say = useMutation({
    mutationFn: ({ text, when, idempotencyKey }: typeof draft) =>
      client().message_job({ job_id: id, text, when }, { idempotencyKey }),
    onSuccess: ({ job: next }, sent) => {
      // What was typed since it was sent stays.
      setDraft((typed) => (typed === sent ? newDraft("", sent.when) : typed));
      // Not waited for: the next word can be said before.
      if (next === undefined) return void reread(id);
      setJob(next);
      navigate(`/jobs/${next.id}`);
    },
  });
  if (!isShown) return null;
  const hasEnded = isFinal(status);
  const waiting = hasEnded ? [] : messages.filter((message) => message.status === "queued");
  return (
    // What it asks is answered first.
    <section className="asked" aria-label="Say something to the agent" hidden={asksPerson(job.waiting)}>
      {waiting.map((message) => (
        <Waiting key={message.id} jobId={id} message={message} />
      ))}
      <Form
        yes={hasEnded ? "Continue" : "Say"}
        action={{ ...say, mutate: () => say.mutate(draft) }}
        isReady={draft.text.trim() !== ""}
        note={
          hasEnded ? (
            "The job has ended: another one continues it"
          ) : (
            <label>
              Heard{" "}
              <Select
                value={draft.when}
                options={Object.entries(whenHeard)}
                change={(when) => setDraft(newDraft(draft.text, when as Message["when"]))}
              />
            </label>
          )
        }
      >
        <textarea
          rows={1}
          maxLength={32_768}
          aria-label="What to say to the agent"
          placeholder="Say something to the agent"
          value={draft.text}
          onChange={({ target }) => setDraft(newDraft(target.value, draft.when))}
        />
      </Form>
    </section>
  );
};

/** What the agent has not heard. */
const Waiting = ({ jobId, message: { id, text, when } }: { jobId: string; message: Message }) => {
  const takeBack = useMutation({
    mutationFn: () => client().take_back_message({ job_id: jobId, message_id: id }),
    onSettled: () => reread(jobId),
  });
  return (
    <p className="row">
      <span className="grow">
        {oneLine(text.slice(0, 500))} <span className="faint">{whenHeard[when]}</span>
      </span>
      <button type="button" disabled={takeBack.isPending} onClick={() => takeBack.mutate()}>
        Take back
      </button>
    </p>
  );
};
