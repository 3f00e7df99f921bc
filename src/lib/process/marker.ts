import type { Marker } from "./table.ts";

/** Names of the variables that mark every process of a job, and every process that an instance of the service starts. */
export const jobVariable = "SERVICE_JOB_ID";
export const instanceVariable = "SERVICE_INSTANCE";

/** What the program of an instance is called in the list of processes, by which others on the machine know it. */
export const serviceTitle = "svc";

/** What an instance started for a job; another instance on the same machine may be at work on the same job by now. */
export const jobMarker = (jobId: string, instance: string | undefined): Marker => ({
  name: jobVariable,
  value: jobId,
  ...(instance !== undefined && { also: instanceMarker(instance) }),
});

/** All that an instance started. */
export const instanceMarker = (instance: string): Marker => ({ name: instanceVariable, value: instance });
