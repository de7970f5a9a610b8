/**
 * Common kinds, each a type and a value of the same name. Another kind of `kubernetes-types` takes one line:
 *
 *     import type { PriorityClass } from "kubernetes-types/scheduling/v1";
 *     const PriorityClassKind = kind<PriorityClass>("scheduling.k8s.io/v1", "PriorityClass");
 */
import type * as apps from "kubernetes-types/apps/v1";
import type * as autoscaling from "kubernetes-types/autoscaling/v2";
import type * as batch from "kubernetes-types/batch/v1";
import type * as coordination from "kubernetes-types/coordination/v1";
import type * as core from "kubernetes-types/core/v1";
import type * as networking from "kubernetes-types/networking/v1";
import type * as policy from "kubernetes-types/policy/v1";
import type * as rbac from "kubernetes-types/rbac/v1";
import type * as storage from "kubernetes-types/storage/v1";

import { kind } from "./object.ts";

export type DaemonSet = apps.DaemonSet;
export const DaemonSet = kind<DaemonSet>("apps/v1", "DaemonSet");
export type Deployment = apps.Deployment;
export const Deployment = kind<Deployment>("apps/v1", "Deployment");
export type ReplicaSet = apps.ReplicaSet;
export const ReplicaSet = kind<ReplicaSet>("apps/v1", "ReplicaSet");
export type StatefulSet = apps.StatefulSet;
export const StatefulSet = kind<StatefulSet>("apps/v1", "StatefulSet");

export type HorizontalPodAutoscaler = autoscaling.HorizontalPodAutoscaler;
export const HorizontalPodAutoscaler = kind<HorizontalPodAutoscaler>("autoscaling/v2", "HorizontalPodAutoscaler");

export type CronJob = batch.CronJob;
export const CronJob = kind<CronJob>("batch/v1", "CronJob");
export type Job = batch.Job;
export const Job = kind<Job>("batch/v1", "Job");

export type Lease = coordination.Lease;
export const Lease = kind<Lease>("coordination.k8s.io/v1", "Lease");

export type ConfigMap = core.ConfigMap;
export const ConfigMap = kind<ConfigMap>("v1", "ConfigMap");
export type Endpoints = core.Endpoints;
export const Endpoints = kind<Endpoints>("v1", "Endpoints");
export type LimitRange = core.LimitRange;
export const LimitRange = kind<LimitRange>("v1", "LimitRange");
export type Namespace = core.Namespace;
export const Namespace = kind<Namespace>("v1", "Namespace");
export type Node = core.Node;
export const Node = kind<Node>("v1", "Node");
export type PersistentVolume = core.PersistentVolume;
export const PersistentVolume = kind<PersistentVolume>("v1", "PersistentVolume");
export type PersistentVolumeClaim = core.PersistentVolumeClaim;
export const PersistentVolumeClaim = kind<PersistentVolumeClaim>("v1", "PersistentVolumeClaim");
export type Pod = core.Pod;
export const Pod = kind<Pod>("v1", "Pod");
export type ResourceQuota = core.ResourceQuota;
export const ResourceQuota = kind<ResourceQuota>("v1", "ResourceQuota");
export type Secret = core.Secret;
export const Secret = kind<Secret>("v1", "Secret");
export type Service = core.Service;
export const Service = kind<Service>("v1", "Service");
export type ServiceAccount = core.ServiceAccount;
export const ServiceAccount = kind<ServiceAccount>("v1", "ServiceAccount");

export type Ingress = networking.Ingress;
export const Ingress = kind<Ingress>("networking.k8s.io/v1", "Ingress");
export type NetworkPolicy = networking.NetworkPolicy;
export const NetworkPolicy = kind<NetworkPolicy>("networking.k8s.io/v1", "NetworkPolicy");

export type PodDisruptionBudget = policy.PodDisruptionBudget;
export const PodDisruptionBudget = kind<PodDisruptionBudget>("policy/v1", "PodDisruptionBudget");

export type ClusterRole = rbac.ClusterRole;
export const ClusterRole = kind<ClusterRole>("rbac.authorization.k8s.io/v1", "ClusterRole");
export type ClusterRoleBinding = rbac.ClusterRoleBinding;
export const ClusterRoleBinding = kind<ClusterRoleBinding>("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
export type Role = rbac.Role;
export const Role = kind<Role>("rbac.authorization.k8s.io/v1", "Role");
export type RoleBinding = rbac.RoleBinding;
export const RoleBinding = kind<RoleBinding>("rbac.authorization.k8s.io/v1", "RoleBinding");

export type StorageClass = storage.StorageClass;
export const StorageClass = kind<StorageClass>("storage.k8s.io/v1", "StorageClass");
