import { lazy, Suspense } from 'react'
import { Route } from 'react-router'
import { Access } from '../pages/access/Access'
import { Activity } from '../pages/activity/Activity'
import { Cluster } from '../pages/cluster/Cluster'
import { Clusters } from '../pages/clusters/Clusters'
import { Config } from '../pages/config/Config'
import { Fleet } from '../pages/fleet/Fleet'
import { Global } from '../pages/globals/Global'
import { Globals } from '../pages/globals/Globals'
import { Hub } from '../pages/hub/Hub'
import { Join } from '../pages/join/Join'
import { Me } from '../pages/me/Me'
import { Missing } from '../pages/missing/Missing'
import { Recording } from '../pages/recording/Recording'
import { Resource } from '../pages/resource/Resource'
import { Service } from '../pages/service/Service'
import { Services } from '../pages/services/Services'
import { Source } from '../pages/source/Source'
import { Sources } from '../pages/sources/Sources'
import { Waiting } from '../ui/Panel'
import { Named } from './Named'

// The editor brings a reader of YAML along, which other pages do without.
const Apply = lazy(() => import('../pages/apply/Apply'))
const Explore = lazy(() => import('../pages/explore/Explore'))

// Kinds whose page is what is written down.
const plain = [
  'project',
  'role',
  'grant',
  'serviceaccount',
  'configset',
  'secret',
  'backend',
  'sink',
  'agentconfig',
  'alert',
]

export const routes = (
  <>
    <Route path="/" element={<Fleet />} />
    <Route path="/services" element={<Services />} />
    <Route
      path="/service/:name"
      element={
        <Named>
          <Service />
        </Named>
      }
    />
    <Route path="/clusters" element={<Clusters />} />
    <Route
      path="/cluster/:name"
      element={
        <Named>
          <Cluster />
        </Named>
      }
    />
    <Route
      path="/cluster/:name/explore/*"
      element={
        <Named>
          <Suspense fallback={<Waiting what="the explorer" />}>
            <Explore />
          </Suspense>
        </Named>
      }
    />
    <Route path="/sources" element={<Sources />} />
    <Route path="/activity" element={<Activity />} />
    <Route
      path="/source/:name"
      element={
        <Named>
          <Source />
        </Named>
      }
    />
    <Route path="/join" element={<Join />} />
    <Route
      path="/cluster/:name/join"
      element={
        <Named>
          <Join />
        </Named>
      }
    />
    <Route path="/globalservices" element={<Globals />} />
    <Route
      path="/globalservice/:name"
      element={
        <Named>
          <Global />
        </Named>
      }
    />
    <Route path="/config" element={<Config />} />
    <Route path="/access" element={<Access />} />
    <Route path="/recording/:id" element={<Recording />} />
    <Route path="/hub" element={<Hub />} />
    <Route path="/me" element={<Me />} />
    <Route
      path="/apply"
      element={
        <Suspense fallback={<Waiting what="the editor" />}>
          <Apply />
        </Suspense>
      }
    />
    {plain.map((kind) => (
      <Route
        key={kind}
        path={`/${kind}/:name`}
        element={
          <Named>
            <Resource kind={kind} />
          </Named>
        }
      />
    ))}
    <Route path="*" element={<Missing />} />
  </>
)
