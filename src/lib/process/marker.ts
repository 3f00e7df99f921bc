import type { Marker } from "./table.ts";

/** Variables that mark every process of a job, and every process that an instance of the service starts. */
export const jobVariable = "SERVICE_JOB_ID";
export const instanceVariable = "SERVICE_INSTANCE";

/** The title of an instance in the list of processes. */
export const serviceTitle = "svc";

/** Processes that an instance started for a job; another instance on this machine may run the same job by now. */
export const jobMarker = (jobId: string, instance: string | undefined): Marker => ({
  name: jobVariable,
  value: jobId,
  ...(instance !== undefined && { also: instanceMarker(instance) }),
});

/** All processes that an instance started. */
export const instanceMarker = (instance: string): Marker => ({ name: instanceVariable, value: instance });
